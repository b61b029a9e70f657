import type { IDisposable } from '@lumino/disposable';

/** So long before the end a hidden tab says so: browsers wake a hidden tab once a minute. */
const SIGN_MS = 75_000;

/**
 * Shows in a hidden tab that the end is near: in its title, and as the browser's notification where
 * the user has allowed those to this site.
 */
export class HiddenTabAlert implements IDisposable {
  constructor() {
    document.addEventListener('visibilitychange', this._update);
  }

  /**
   * @param title - What is said in the last minute: "This server stops in 1 minute".
   * @param left - Milliseconds until then; null where nothing ends any more.
   */
  expect(title: string, left: number | null): void {
    window.clearTimeout(this._timer);
    this._title = left === null ? '' : title;
    this._endsAt = left === null ? Infinity : performance.now() + left;
    if (left !== null) {
      this._timer = window.setTimeout(this._update, Math.max(0, left - SIGN_MS));
    }
    this._update();
  }

  private readonly _update = (): void => {
    const left = this._endsAt - performance.now();
    const isNear = this._title !== '' && left <= SIGN_MS;
    if (!document.hidden || !isNear) {
      this._restore();
    } else {
      this._show(this._title);
    }
  };

  private _show(text: string): void {
    if (this._before === null || document.title !== this._shown) {
      this._before = document.title;
      this._shown = `⚠ ${text}`;
      document.title = this._shown;
      this._observer.observe(document.querySelector('title')!, { childList: true });
    }
    if (this._notification) {
      return;
    }
    if ('Notification' in window && window.Notification.permission === 'granted') {
      this._notification = new window.Notification(text, { tag: 'ec2spawner-last-minute' });
      this._notification.onclick = () => window.focus();
    }
  }

  private _restore(): void {
    this._observer.disconnect();
    if (this._before !== null && document.title === this._shown) {
      document.title = this._before;
    }
    this._before = null;
    this._notification?.close();
    this._notification = null;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this.expect('', null);
    document.removeEventListener('visibilitychange', this._update);
  }

  /** JupyterLab writes the title again whenever a document is saved, as all are before the end. */
  private readonly _observer = new MutationObserver(() => this._update());
  private _isDisposed = false;
  private _timer: number | undefined;
  private _title = '';
  private _endsAt = Infinity;
  private _before: string | null = null;
  private _shown = '';
  private _notification: globalThis.Notification | null = null;
}
