import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Notification } from '@jupyterlab/apputils';
import type { Event } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { saveAll } from '../commands/documents.js';
import type { ServerActions } from '../commands/serverActions.js';
import { interruptedCell, type ICellPlace } from '../model/interruptedCell.js';
import { keepLabel } from '../text/serverText.js';
import { HiddenTabAlert } from './hiddenTabAlert.js';
import type { SettingsModel } from '../model/settingsModel.js';
import type { StatusModel } from '../model/statusModel.js';
import { duration } from '../text/format.js';
import { announcesStop, noticeText, noticeTitle } from '../text/noticeText.js';
import { withOwners } from '../model/ownersNotices.js';
import { instant } from '../model/state.js';
import { LastSave } from './lastSave.js';
import { NoticeNotification } from './noticeNotification.js';
import { isShown, markShown } from './shownSuggestions.js';
import type { INotebookStatus, INotice, INoticesEvent } from '../api/wire/index.js';

const SCHEMA_ID = 'https://events.ec2spawner.org/notices/v1';

/** No answer is later than this: what seems to be comes from a clock that has been set back. */
const MAX_LATE_MS = 60_000;

/** Before these, what is open is saved: "files are kept" holds for what is in files. */
const SAVED_BEFORE: readonly INotice['kind'][] = ['idle', 'stopping', 'interruption'];

/** Whether the server ends by it: a limit that is only partly used up ends nothing. */
function isEnd({ kind, until }: INotice): boolean {
  return SAVED_BEFORE.includes(kind) || (kind === 'budget' && until !== null);
}

/** Whether a page that is opened later says nothing of it: nothing has to be done. */
function isSaidOnce({ kind, level }: INotice): boolean {
  return level === 'info' || kind === 'price';
}

/**
 * Shows what the server says that people should know: each notice once, for as long as it holds.
 *
 * It hears of them in each status, and on the event websocket: a hidden tab asks for no status.
 */
export class NoticeNotifications implements IDisposable {
  constructor(options: NoticeNotifications.IOptions) {
    this._model = options.model;
    this._actions = options.actions;
    this._settings = options.settings;
    this._shell = options.shell;
    this._events = options.events;
    this._openPanel = options.openPanel;
    this._openCell = options.openCell;
    this._trans = options.trans;
    this._model.changed.connect(this._onStatus, this);
    this._events.connect(this._onEvent, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._events.disconnect(this._onEvent, this);
    Signal.clearData(this);
    this._shown.forEach(shown => shown.dispose());
    this._shown.clear();
    this._hiddenTabAlert.dispose();
  }

  private _onStatus(): void {
    const { status } = this._model.view;
    if (status && status !== this._status) {
      this._status = status;
      this._take(status);
    }
    if (this._model.view.phase === 'away') {
      this._withdrawEnds();
    }
    this._shown.forEach(shown => this._refresh(shown));
  }

  /** What was announced has happened, or is unknown: `ConnectionLostNotification` says which. */
  private _withdrawEnds(): void {
    for (const [id, shown] of this._shown) {
      if (isEnd(shown.notice)) {
        this._shown.delete(id);
        shown.dispose();
      }
    }
    this._hiddenTabAlert.expect('', null);
  }

  private _onEvent(_: Event.IManager, emission: Event.Emission): void {
    if (emission.schema_id === SCHEMA_ID) {
      const event = emission as unknown as INoticesEvent;
      const known = [...this._shown.values()].map(shown => shown.notice);
      this._take({ now: event.now, notices: withOwners(event.notices, known) });
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
        shown.dispose();
      }
    }
    this._expectEnd(notices);
    for (const notice of notices.map(each => this._forReader(each))) {
      const shown = this._shown.get(notice.id);
      if (shown) {
        const isMoved = shown.notice.until !== notice.until;
        shown.notice = notice;
        if (isMoved && isEnd(notice)) {
          this._saveAgain(shown);
        }
        this._refresh(shown);
      } else {
        this._add(notice);
      }
    }
  }

  /** What the owner chose is no success for others, who lose the server. */
  private _forReader(notice: INotice): INotice {
    const isOthers = this._model.view.status?.can_control === false;
    return notice.level === 'success' && isOthers ? { ...notice, level: 'warning' } : notice;
  }

  private _expectEnd(notices: INotice[]): void {
    const ends = this._settings.current.notices
      ? notices.filter(notice => isEnd(notice) && notice.until !== null)
      : [];
    const [first] = ends.sort((a, b) => (instant(a.until) ?? 0) - (instant(b.until) ?? 0));
    this._hiddenTabAlert.expect(
      first ? noticeTitle(first, duration(60_000, this._trans), this._trans) : '',
      first ? (instant(first.until) ?? 0) - this._now : null
    );
  }

  private _add(notice: INotice): void {
    const save = (): void => void saveAll(this._shell);
    const shown = new NoticeNotification(notice, new LastSave(save));
    this._shown.set(notice.id, shown);
    if (this._settings.current.notices && !(isSaidOnce(notice) && isShown(notice.id))) {
      shown.show(this._text(notice), this._buttons(notice));
      if (isSaidOnce(notice)) {
        markShown(notice.id);
      }
    }
    if (isEnd(notice)) {
      this._save(shown);
    }
  }

  private _save(shown: NoticeNotification): void {
    if (announcesStop(shown.notice)) {
      void this._actions.saveForStop();
      return;
    }
    void saveAll(this._shell);
    this._saveAgain(shown);
  }

  /** Shortly before the end, wherever that has moved. */
  private _saveAgain(shown: NoticeNotification): void {
    const until = instant(shown.notice.until);
    shown.lastSave.expect(until === null ? null : until - this._now);
  }

  private _refresh(shown: NoticeNotification): void {
    shown.refresh(this._text(shown.notice), this._buttons(shown.notice));
  }

  private _text(notice: INotice): string {
    return noticeText(notice, this._now, this._model.view, this._trans);
  }

  /** The server's clock, as far as anybody here knows. */
  private get _now(): number {
    return this._serverNow + performance.now() - this._heardAt;
  }

  private _buttons(notice: INotice): Notification.IAction[] {
    const until = this._actions.keepUntil;
    return notice.actions.flatMap<Notification.IAction>((action, index) => {
      const displayType = index === 0 ? 'accent' : 'default';
      if (action === 'panel') {
        return [
          { label: this._trans.__('Show details'), displayType, callback: () => this._openPanel() }
        ];
      }
      if (action === 'cell') {
        const cell = interruptedCell(this._model.view.status?.wake ?? null);
        const go = (): void => void (cell && this._openCell(cell));
        const label = cell?.cellId
          ? this._trans.__('Go to the cell')
          : this._trans.__('Go to the notebook');
        return cell ? [{ label, displayType, callback: go }] : [];
      }
      if (action === 'keep') {
        const keep = (): Promise<boolean> => this._actions.keep(until);
        return until === null
          ? []
          : [this._button(notice.id, keepLabel(until, this._trans), displayType, keep)];
      }
      if (action === 'continue') {
        const callback = (): void => void this._actions.continueElsewhere();
        return this._actions.maySleep
          ? [{ label: this._trans.__('Continue on…'), displayType, callback }]
          : [];
      }
      if (action === 'sleep') {
        const sleep = (): Promise<boolean> => this._actions.sleep();
        return this._actions.maySleep
          ? [this._button(notice.id, this._trans.__('Sleep now'), displayType, sleep)]
          : [];
      }
      const stop = (): Promise<boolean> => this._actions.stop();
      return this._actions.available
        ? [this._button(notice.id, this._trans.__('Stop now'), displayType, stop)]
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

  private readonly _model: StatusModel;
  private readonly _actions: ServerActions;
  private readonly _settings: SettingsModel;
  private readonly _shell: JupyterFrontEnd.IShell;
  private readonly _events: Event.Stream;
  private readonly _openPanel: () => void;
  private readonly _openCell: (cell: ICellPlace) => void;
  private readonly _trans: TranslationBundle;
  private readonly _hiddenTabAlert = new HiddenTabAlert();
  private readonly _shown = new Map<string, NoticeNotification>();
  private _status: INotebookStatus | null = null;
  private _serverNow = 0;
  private _heardAt = 0;
  private _isDisposed = false;
}

export namespace NoticeNotifications {
  export interface IOptions {
    model: StatusModel;
    actions: ServerActions;
    settings: SettingsModel;
    shell: JupyterFrontEnd.IShell;
    /** Jupyter Server's events: a hidden tab does not poll. */
    events: Event.Stream;
    openPanel: () => void;
    openCell: (cell: ICellPlace) => void;
    trans: TranslationBundle;
  }
}
