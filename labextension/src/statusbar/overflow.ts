import type { IDisposable } from '@lumino/disposable';

/**
 * Calls `refit` whenever the bar that holds `node`, or one of the bar's sections, changes its
 * size, so that an item can choose how much to say. JupyterLab's status bar has three sections,
 * which clip what does not fit; Notebook hides its top area before room becomes short there.
 */
export class OverflowObserver implements IDisposable {
  constructor(
    private readonly node: HTMLElement,
    refit: () => void
  ) {
    this._observer = new ResizeObserver(refit);
    this._sections().forEach(section => this._observer.observe(section));
  }

  /** Does anything in the bar stick out of its place? */
  overflows(): boolean {
    return this._sections().some(section => section.scrollWidth > section.clientWidth);
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    this._observer.disconnect();
  }

  private _sections(): Element[] {
    const bar = this.node.parentElement?.parentElement;
    return bar ? [bar, ...bar.children] : [];
  }

  private readonly _observer: ResizeObserver;
  private _disposed = false;
}
