import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import { ServerConnection, type Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { PromiseDelegate } from '@lumino/coreutils';
import { DisposableDelegate, DisposableSet, type IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import type { INotebookStatus, IStop } from '../api/wire/index.js';
import { saveAll, unsavedDocuments } from '../commands/documents.js';
import { isUnanswered, type StatusModel } from '../model/statusModel.js';
import { heldText, savedText } from '../text/unsavedText.js';

/** What is used here of a document's widget. */
type IUntitled = Widget & Pick<IDocumentWidget, 'isUntitled'>;

/** JupyterLab's commands by which a person saves. */
const SAVE_COMMANDS = ['docmanager:save', 'docmanager:save-all'];

/** A save waits for the one before of its document, but not longer: that one may have hung. */
const TURN_MS = 30_000;

const TOAST_MS = 5000;

/** A server that answers says so of a file, too, which something else has deleted. */
const MISSING = 404;

/** A save that was not tried, or whose server went away meanwhile: it is made when that is back. */
export class SaveHeldError extends Error {
  constructor() {
    super('This server does not run now: the document is saved as soon as it runs again.');
    // JupyterLab shows an error of any other name in a dialog.
    this.name = 'ModalCancelError';
  }
}

/**
 * Hold saves from the last one before a stop until the server is ready again, then make them.
 *
 * Held are those of JupyterLab's autosave and those that a person asks for. A save that is under way
 * when the server goes away fails without JupyterLab's dialog, and is made later, too. Whatever has
 * not been saved stays marked as changed, so that the browser asks before the page is closed.
 *
 * JupyterLab has no extension point for this: `save` and `revert` of each document's context
 * are replaced, and `get` and `save` of the contents manager, which the context calls.
 */
export class HeldSaves implements IDisposable, DocumentRegistry.WidgetExtension {
  constructor({ app, model, trans }: HeldSaves.IOptions) {
    this._app = app;
    this._model = model;
    this._trans = trans;
    this._followDocuments();
    this._replaceRequests(app.serviceManager.contents);
    app.commands.commandExecuted.connect(this._onCommand, this);
    model.changed.connect(this._update, this);
    model.askWhile(() => this._isWaiting());
  }

  /** Whether nothing is saved now. */
  get isHolding(): boolean {
    return this._isOver || this._model.view.phase === 'away';
  }

  /** This page has saved for the last time before a stop. */
  hold(): void {
    this._isOver = true;
    this._wasAway = this._model.view.phase === 'away';
    this._lastStatus = this._model.view.status;
    this._stop = this._lastStatus?.stop ?? null;
    this._askForNames(false);
  }

  /** A stop is announced: before that, everything is saved once more. */
  release(): void {
    this._isOver = false;
    this._askForNames(true);
  }

  createNew(_: Widget, context: DocumentRegistry.Context): IDisposable {
    if (!this._followed.has(context)) {
      this._followed.add(context);
      const save = context.save.bind(context);
      const revert = context.revert.bind(context);
      context.save = () => this._save(context, save);
      context.revert = async () => {
        await revert();
        this._changed.delete(context); // What it shows is its file.
      };
      const restore = new DisposableDelegate(() => Object.assign(context, { save, revert }));
      this._replaced.add(restore);
      context.disposed.connect(() => {
        this._replaced.remove(restore);
        this._held.delete(context);
      }, this);
    }
    return new DisposableDelegate(() => undefined);
  }

  get isDisposed(): boolean {
    return this._replaced.isDisposed;
  }

  dispose(): void {
    Signal.clearData(this);
    this._askForNames(true);
    this._replaced.dispose();
    this._gone.reject(new SaveHeldError());
  }

  /** Of every kind, also those that other extensions add later. */
  private _followDocuments(): void {
    const { docRegistry } = this._app;
    const follow = (name: string): void =>
      void this._replaced.add(docRegistry.addWidgetExtension(name, this));
    for (const { name } of docRegistry.widgetFactories()) {
      follow(name);
    }
    docRegistry.changed.connect((_, { type, name, change }) => {
      if (type === 'widgetFactory' && change === 'added' && name && !this.isDisposed) {
        follow(name);
      }
    }, this);
  }

  private _replaceRequests(contents: Contents.IManager): void {
    const get = contents.get.bind(contents);
    const save = contents.save.bind(contents);
    contents.get = (path, options) => this._ask(path, () => get(path, options));
    contents.save = (path, options) => this._ask(path, () => save(path, options));
    this._replaced.add(new DisposableDelegate(() => Object.assign(contents, { get, save })));
  }

  private async _save(context: DocumentRegistry.Context, save: () => Promise<void>): Promise<void> {
    if (!this._model.view.status?.managed) {
      return save();
    }
    // Two at once would take each other's file for one that something else has changed.
    const before = this._last.get(context);
    const mine = before ? inTurn(before, () => this._run(context, save)) : this._run(context, save);
    this._last.set(context, mine);
    return mine;
  }

  private async _run(context: DocumentRegistry.Context, save: () => Promise<void>): Promise<void> {
    if (this.isHolding && !(await this._isBack())) {
      throw new SaveHeldError();
    }
    const { model } = context;
    const note = (): void => void this._changed.add(context);
    this._changed.delete(context);
    model.contentChanged.connect(note);
    this._running.add(context);
    let isHeld = false;
    try {
      await save();
    } catch (error) {
      isHeld = error instanceof SaveHeldError;
      throw error;
    } finally {
      model.contentChanged.disconnect(note);
      this._running.delete(context);
      if (!isHeld) {
        this._held.delete(context);
      }
    }
    if (this._changed.has(context) && !context.isDisposed) {
      // JupyterLab takes what was typed meanwhile for saved.
      model.dirty = true;
    }
  }

  /** A request of a save that is under way, or any other. */
  private async _ask<T>(path: string, request: () => Promise<T>): Promise<T> {
    const context = [...this._running].find(each => each.path === path);
    if (!context) {
      return request();
    }
    try {
      return await Promise.race([request(), this._gone.promise]);
    } catch (error) {
      throw (await this._isFinal(context, error)) ? error : new SaveHeldError();
    }
  }

  /**
   * Whether JupyterLab shall show this failure: it is the server's own, or what is in the place of
   * the server refuses although the server answers, twice in a row.
   */
  private async _isFinal(context: DocumentRegistry.Context, error: unknown): Promise<boolean> {
    if (error instanceof SaveHeldError) {
      return false;
    }
    if ((await this._isBack()) && (this._held.has(context) || !isOfAnother(error))) {
      return true;
    }
    this._held.add(context);
    return false;
  }

  private async _isBack(): Promise<boolean> {
    await this._model.ask();
    return this._model.isAnswering && !this.isHolding;
  }

  /** Whether something is to be saved on the server's return, also while the tab is hidden. */
  private _isWaiting(): boolean {
    const mayBeBack = this.isHolding || this._held.size > 0 || !this._model.isAnswering;
    const isManaged = this._model.view.status?.managed === true;
    return (
      mayBeBack && isManaged && !this.isDisposed && unsavedDocuments(this._app.shell).length > 0
    );
  }

  private _update(): void {
    const { phase, status } = this._model.view;
    if (phase === 'away') {
      this._wasAway = true;
      this._gone.reject(new SaveHeldError());
      this._gone = gone();
    }
    if (!this._model.isAnswering) {
      this._askForNames(!this.isHolding);
      return;
    }
    if (this._isOver && !this._wasAway && !this._isWithdrawn()) {
      this._stop ??= status?.stop ?? null;
      this._askForNames(false);
      return;
    }
    this._askForNames(true);
    const isDue = this._wasAway || this._isOver || this._held.size > 0;
    this._wasAway = this._isOver = false;
    if (isDue && status?.managed && !this._isSaving) {
      void this._saveAll();
    }
  }

  /** By a dialog, as JupyterLab does where a person first saves a new file: not of a save that is held. */
  private _askForNames(may: boolean): void {
    if (may) {
      this._untitled.forEach(widget => (widget.isUntitled = true));
      this._untitled.clear();
      return;
    }
    for (const widget of this._app.shell.widgets('main') as Iterable<IUntitled>) {
      if (widget.isUntitled) {
        widget.isUntitled = false;
        this._untitled.add(widget);
      }
    }
  }

  /** Whether the stop does not come, or has come and the server stops once more. */
  private _isWithdrawn(): boolean {
    const { status } = this._model.view;
    const isOther = !status?.stop || (this._stop !== null && !isSame(status.stop, this._stop));
    return status !== this._lastStatus && isOther;
  }

  private async _saveAll(): Promise<void> {
    this._isSaving = true;
    const names = unsavedDocuments(this._app.shell).map(({ localPath }) => localPath);
    await saveAll(this._app.shell);
    this._isSaving = false;
    this._held.forEach(each => each.model.dirty || this._held.delete(each));
    if (names.length > 0 && unsavedDocuments(this._app.shell).length === 0) {
      Notification.success(savedText(names, this._trans), { autoClose: TOAST_MS });
    }
  }

  private _onCommand(_: unknown, command: { id: string; result: Promise<unknown> }): void {
    if (SAVE_COMMANDS.includes(command.id)) {
      void this._answer(command.result);
    }
  }

  /** To a person who saves: JupyterLab says nothing of a save that was held. */
  private async _answer(result: Promise<unknown>): Promise<void> {
    await result.catch(() => undefined);
    const names = unsavedDocuments(this._app.shell).map(({ localPath }) => localPath);
    if (names.length > 0 && (this.isHolding || this._held.size > 0) && !this.isDisposed) {
      Notification.warning(heldText(names, this._trans), { autoClose: TOAST_MS });
    }
  }

  private readonly _app: JupyterFrontEnd;
  private readonly _model: StatusModel;
  private readonly _trans: TranslationBundle;
  private readonly _replaced = new DisposableSet();
  private readonly _followed = new WeakSet<DocumentRegistry.Context>();
  private readonly _last = new WeakMap<DocumentRegistry.Context, Promise<void>>();
  /** Documents that are being saved now. */
  private readonly _running = new Set<DocumentRegistry.Context>();
  /** Documents that have been changed while they were being saved. */
  private readonly _changed = new WeakSet<DocumentRegistry.Context>();
  /** Documents whose save has failed for want of a server. */
  private readonly _held = new Set<DocumentRegistry.Context>();
  /** New files that JupyterLab would ask a name for. */
  private readonly _untitled = new Set<IUntitled>();
  /** Rejected when the server is away: a request to it may hang. */
  private _gone = gone();
  private _isOver = false;
  private _lastStatus: INotebookStatus | null = null;
  /** The stop after whose last save nothing is saved; null until the server has said which. */
  private _stop: IStop | null = null;
  private _wasAway = false;
  private _isSaving = false;
}

export namespace HeldSaves {
  export interface IOptions {
    app: JupyterFrontEnd;
    model: StatusModel;
    trans: TranslationBundle;
  }
}

function gone(): PromiseDelegate<never> {
  const made = new PromiseDelegate<never>();
  made.promise.catch(() => undefined);
  return made;
}

/** Run when `before` has ended, however it does. */
async function inTurn<T>(before: Promise<unknown>, run: () => Promise<T>): Promise<T> {
  let timer: number | undefined;
  const timeout = new Promise(resolve => {
    timer = window.setTimeout(resolve, TURN_MS);
  });
  await Promise.race([before.catch(() => undefined), timeout]);
  window.clearTimeout(timer);
  return run();
}

/** Whether both are one stop, whose details may change until it comes. */
function isSame(one: IStop, other: IStop): boolean {
  return one.reason === other.reason && one.by === other.by;
}

/** As `isUnanswered`, of a save: a file that is missing is the server's own answer. */
function isOfAnother(error: unknown): boolean {
  const response = error instanceof ServerConnection.ResponseError ? error.response : null;
  return isUnanswered(error) && response?.status !== MISSING;
}
