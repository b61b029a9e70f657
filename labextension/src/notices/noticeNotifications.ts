import { Notification } from '@jupyterlab/apputils';
import type { Event } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ServerActions } from '../commands/serverActions.js';
import { keepLabel } from '../text/serverText.js';
import { HiddenTabAlert } from './hiddenTabAlert.js';
import type { StatusModel } from '../model/statusModel.js';
import { duration } from '../text/format.js';
import { announcesStop, noticeText, noticeTitle } from '../text/noticeText.js';
import { instant } from '../model/state.js';
import { isOnScreen } from './toast.js';
import type { INotebookStatus, INotice, INoticesEvent } from '../api/wire.js';

const SCHEMA_ID = 'https://events.ec2spawner.org/notices/v1';

/** Ids of suggestions that this browser has shown: they are made once, and never again. */
const SHOWN_KEY = 'ec2spawner:shown-notices';
const MAX_REMEMBERED = 50;

/** No answer is later than this: what seems to be comes from a clock that has been set back. */
const MAX_LATE_MS = 60_000;

/** Before these, what is open is saved: "files are kept" holds for what is in files. */
const SAVED_BEFORE: readonly INotice['kind'][] = ['idle', 'stopping', 'interruption'];

/** And again so long before the end: people write on, and cells go on, after the notice. */
const SAVED_AGAIN_MS = 15_000;

/**
 * Shows what the server says that people should know: each notice once, for as long as it holds.
 *
 * It hears of them in each status, and on the event websocket: a hidden tab asks for no status.
 */
export class NoticeNotifications {
  constructor(
    private readonly model: StatusModel,
    private readonly actions: ServerActions,
    events: Event.Stream,
    private readonly openPanel: () => void,
    private readonly trans: TranslationBundle
  ) {
    this._hiddenTabAlert = new HiddenTabAlert();
    model.changed.connect(() => this._hearStatus());
    events.connect((_, emission) => this._hearEvent(emission));
  }

  private _hearStatus(): void {
    const { status } = this.model.view;
    if (status && status !== this._status) {
      this._status = status;
      this._take(status);
    }
    if (this.model.view.phase === 'away') {
      this._withdrawEnds();
    }
    this._shown.forEach(shown => this._refresh(shown));
  }

  /** What was announced has come, or cannot be told: `ConnectionLostNotification` says which. */
  private _withdrawEnds(): void {
    for (const [id, shown] of this._shown) {
      if (SAVED_BEFORE.includes(shown.notice.kind)) {
        this._shown.delete(id);
        shown.withdraw();
      }
    }
    this._hiddenTabAlert.expect('', null);
  }

  private _hearEvent(emission: Event.Emission): void {
    if (emission.schema_id === SCHEMA_ID) {
      this._take(emission as unknown as INoticesEvent);
    }
  }

  /** All that hold at `now`; a late answer does not bring back what has gone since. */
  private _take({ now, notices }: Pick<INotebookStatus, 'now' | 'notices'>): void {
    const at = Date.parse(now);
    if (at < this._serverNow && at > this._serverNow - MAX_LATE_MS) {
      return;
    }
    this._serverNow = at;
    this._heardAt = performance.now();
    const holding = new Set(notices.map(notice => notice.id));
    for (const [id, shown] of this._shown) {
      if (!holding.has(id)) {
        this._shown.delete(id);
        shown.withdraw();
      }
    }
    this._expectEnd(notices);
    for (const notice of notices) {
      const shown = this._shown.get(notice.id);
      if (shown) {
        shown.notice = notice;
        this._refresh(shown);
      } else {
        this._add(notice);
      }
    }
  }

  private _expectEnd(notices: INotice[]): void {
    const ends = notices.filter(({ kind, until }) => SAVED_BEFORE.includes(kind) && until !== null);
    const [first] = ends.sort((a, b) => (instant(a.until) ?? 0) - (instant(b.until) ?? 0));
    this._hiddenTabAlert.expect(
      first ? noticeTitle(first, duration(60_000, this.trans), this.trans) : '',
      first ? (instant(first.until) ?? 0) - this._now : null
    );
  }

  private _add(notice: INotice): void {
    const shown = new Shown(notice);
    this._shown.set(notice.id, shown);
    if (notice.level === 'info' && isRemembered(notice.id)) {
      return;
    }
    if (notice.level === 'info') {
      remember(notice.id);
    }
    shown.show(this._text(notice), this._buttons(notice));
    if (SAVED_BEFORE.includes(notice.kind)) {
      this._save(shown);
    }
  }

  private _save(shown: Shown): void {
    if (announcesStop(shown.notice)) {
      void this.actions.saveForStop();
      return;
    }
    void this.actions.saveAll();
    const until = instant(shown.notice.until);
    if (until !== null && until - this._now > SAVED_AGAIN_MS) {
      const save = (): void => void this.actions.saveAll();
      shown.later = window.setTimeout(save, until - this._now - SAVED_AGAIN_MS);
    }
  }

  private _refresh(shown: Shown): void {
    shown.refresh(this._text(shown.notice), this._buttons(shown.notice));
  }

  private _text(notice: INotice): string {
    return noticeText(notice, this._now, this.model.view, this.trans);
  }

  /** The server's clock, as far as anybody here knows. */
  private get _now(): number {
    return this._serverNow + performance.now() - this._heardAt;
  }

  private _buttons(notice: INotice): Notification.IAction[] {
    const until = this.actions.keepUntil;
    return notice.actions.flatMap<Notification.IAction>((action, index) => {
      const displayType = index === 0 ? 'accent' : 'default';
      if (action === 'panel') {
        return [
          { label: this.trans.__('Show details'), displayType, callback: () => this.openPanel() }
        ];
      }
      if (action === 'keep') {
        const keep = (): Promise<boolean> => this.actions.keep(until);
        return until === null
          ? []
          : [this._button(notice.id, keepLabel(until, this.trans), displayType, keep)];
      }
      const stop = (): Promise<boolean> => this.actions.stop();
      return this.actions.available
        ? [this._button(notice.id, this.trans.__('Stop now'), displayType, stop)]
        : [];
    });
  }

  private _button(
    id: string,
    label: string,
    displayType: Notification.ActionDisplayType,
    act: () => Promise<boolean>
  ): Notification.IAction {
    return { label, displayType, callback: () => void this._unlessDone(id, act()) };
  }

  /** A button closes the notice; when nothing came of it, the notice holds still. */
  private async _unlessDone(id: string, done: Promise<boolean>): Promise<void> {
    const isDone = await done;
    const shown = this._shown.get(id);
    if (!isDone && shown) {
      shown.show(this._text(shown.notice), this._buttons(shown.notice));
    }
  }

  private readonly _hiddenTabAlert: HiddenTabAlert;
  private readonly _shown = new Map<string, Shown>();
  private _status: INotebookStatus | null = null;
  private _serverNow = 0;
  private _heardAt = 0;
}

/** One notice as JupyterLab's notification. */
class Shown {
  /** The timer of what is still to be done while it holds. */
  later: number | undefined;

  constructor(public notice: INotice) {}

  show(text: string, actions: Notification.IAction[]): void {
    this._id = Notification.emit(text, this.notice.level, { autoClose: false, actions });
    this._last = summary(text, actions);
  }

  /** To update one that is not seen would bring back a toast that the user has just put away. */
  refresh(message: string, actions: Notification.IAction[]): void {
    const now = summary(message, actions);
    if (this._id === null || now === this._last || !isOnScreen(this._id)) {
      return;
    }
    this._last = now;
    Notification.update({ id: this._id, message, autoClose: false, actions });
  }

  withdraw(): void {
    window.clearTimeout(this.later);
    if (this._id !== null) {
      Notification.dismiss(this._id);
      this._id = null;
    }
  }

  private _id: string | null = null;
  private _last = '';
}

function summary(text: string, actions: Notification.IAction[]): string {
  return [text, ...actions.map(action => action.label)].join('\n');
}

function remembered(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(SHOWN_KEY) ?? '[]');
    return Array.isArray(found) ? found.filter(id => typeof id === 'string') : [];
  } catch {
    return [];
  }
}

function isRemembered(id: string): boolean {
  return remembered().includes(id);
}

function remember(id: string): void {
  try {
    const ids = [id, ...remembered()].slice(0, MAX_REMEMBERED);
    localStorage.setItem(SHOWN_KEY, JSON.stringify(ids));
  } catch {
    // A browser that keeps nothing shows it again.
  }
}
