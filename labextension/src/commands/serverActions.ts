import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import type { TranslationBundle } from '@jupyterlab/translation';
import { UUID } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

import { filesSentence } from '../text/serverText.js';
import { time } from '../text/format.js';
import { sentenceText } from '../text/sentenceText.js';
import type { StatusModel } from '../model/statusModel.js';
import { RefusedError, request, sentenceOf } from '../api/request.js';
import { canControl, isEnding, nextKeep } from '../model/state.js';

/** A document that cannot be saved must not keep the machine on. */
const SAVE_TIMEOUT_MS = 10_000;

/** How long to wait for a sign that a stop was accepted, whose answer was lost. */
const STOP_SIGN_MS = 10_000;

/** What a person can do about their server. */
export class ServerActions {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly model: StatusModel,
    private readonly trans: TranslationBundle
  ) {}

  /** True where an agent stands behind this server that can be asked, and its owner asks. */
  get available(): boolean {
    const { phase, status } = this.model.view;
    return phase === 'live' && status !== null && canControl(status);
  }

  /** Until when `keep` keeps the server on, in ms since the epoch; null where that is nothing. */
  get keepUntil(): number | null {
    return this.available ? nextKeep(this.model.view) : null;
  }

  /** Keep the server on until then, by the server's clock; answers whether that was granted. */
  async keep(until: number | null = this.keepUntil): Promise<boolean> {
    if (until === null) {
      return false;
    }
    const seconds = (until - this.model.view.now) / 1000;
    try {
      const answer = await this._request('extend', { seconds });
      const said = this.trans.__('This server is kept on until %1.', time(until));
      this._tellGranted(answer, said);
      return true;
    } catch (reason) {
      this._tell(this.trans.__('This server could not be kept on.'), reason);
      return false;
    } finally {
      this.model.refresh();
    }
  }

  /** Stop the server, after asking; answers whether it is being stopped. */
  async stop(): Promise<boolean> {
    const answer = await showDialog({
      title: this.trans.__('Stop this server?'),
      body: paragraphs([
        this.trans.__('Open documents are saved first. Running kernels and terminals end.'),
        filesSentence(this.model.view.status, this.trans)
      ]),
      buttons: [
        Dialog.cancelButton({ label: this.trans.__('Cancel') }),
        Dialog.warnButton({ label: this.trans.__('Stop now') })
      ],
      defaultButton: 0
    });
    if (!answer.button.accept) {
      return false;
    }
    await this.saveAll();
    try {
      await this._request('stop');
      return true;
    } catch (reason) {
      // A server that is stopped may be gone before it has answered.
      if (!isRefusal(reason) && (await this._isEndingSoon())) {
        return true;
      }
      this._tell(this.trans.__('This server could not be stopped.'), reason);
      return false;
    } finally {
      this.model.refresh();
    }
  }

  /** Stop after so many seconds without work from now on; answers whether that was granted. */
  async chooseIdle(seconds: number): Promise<boolean> {
    try {
      const answer = await this._request('idle', { server_seconds: seconds });
      this._tellGranted(answer, this.trans.__('The idle time was changed.'));
      return true;
    } catch (reason) {
      this._tell(this.trans.__('The idle time could not be changed.'), reason);
      return false;
    } finally {
      this.model.refresh();
    }
  }

  /**
   * Save every open document with changes that can be saved; never fails and never takes long.
   *
   * Not by `docmanager:save-all`: that also saves what is saved already, and is over as soon as one
   * document fails. One that opens a dialog, as on a conflict, holds up no other.
   */
  async saveAll(): Promise<void> {
    const unsaved = new Map<string, DocumentRegistry.Context>();
    for (const widget of this.app.shell.widgets('main')) {
      const { context } = widget as Widget & Partial<Pick<IDocumentWidget, 'context'>>;
      if (context?.model.dirty && context.contentsModel?.writable) {
        unsaved.set(context.path, context);
      }
    }
    const saves = [...unsaved.values()].map(context => context.save().catch(() => undefined));
    const timeout = new Promise(resolve => window.setTimeout(resolve, SAVE_TIMEOUT_MS));
    await Promise.race([Promise.all(saves), timeout]);
  }

  /** Save before a stop, and report it: the server stops as soon as every open page has. */
  async saveForStop(): Promise<void> {
    await this.saveAll();
    // Without the report the stop waits for a few seconds, and comes.
    await this._request('saved', { page: this._page }).catch(() => undefined);
  }

  /** Whether the server says within `STOP_SIGN_MS` that it stops, or falls silent. */
  private _isEndingSoon(): Promise<boolean> {
    const { model } = this;
    return new Promise(resolve => {
      const decide = (ending: boolean): void => {
        window.clearTimeout(timer);
        model.changed.disconnect(check);
        resolve(ending);
      };
      const check = (): void => {
        if (isEnding(model.view)) {
          decide(true);
        }
      };
      const timer = window.setTimeout(() => decide(isEnding(model.view)), STOP_SIGN_MS);
      model.changed.connect(check);
      model.refresh();
      check();
    });
  }

  private _request(path: 'extend' | 'idle' | 'stop' | 'saved', body?: unknown): Promise<unknown> {
    return request(this.app.serviceManager.serverSettings, path, body);
  }

  /** With a sentence of its own, less was granted than asked for. */
  private _tellGranted(answer: unknown, said: string): void {
    const instead = sentenceOf(answer);
    if (instead) {
      Notification.info(sentenceText(instead, this.trans), { autoClose: 10_000 });
    } else {
      Notification.success(said, { autoClose: 5000 });
    }
  }

  private _tell(what: string, reason: unknown): void {
    const sentence = reason instanceof RefusedError ? reason.sentence : null;
    const why = sentence
      ? sentenceText(sentence, this.trans)
      : this.trans.__('The server does not respond. Try again in a moment.');
    Notification.error(`${what} ${why}`, { autoClose: false });
  }

  /** By which the server tells open pages apart. */
  private readonly _page = UUID.uuid4();
}

/** True where the hub was asked and said no; every other failure may be the stop itself. */
function isRefusal(reason: unknown): boolean {
  return reason instanceof RefusedError && reason.response.status === 409;
}

/** Whether an open document has changes that are not saved. */
export function hasUnsaved(shell: JupyterFrontEnd.IShell): boolean {
  return [...shell.widgets('main')].some(isDirty);
}

/** True for a document with changes that are not saved, as JupyterLab marks its tab. */
function isDirty(widget: Widget): boolean {
  return widget.title.className.split(' ').includes('jp-mod-dirty');
}

/** Text as text, whoever wrote it. */
function paragraphs(texts: string[]): Widget {
  const body = new Widget();
  body.addClass('ec2-Dialog-body');
  for (const text of texts) {
    body.node.appendChild(document.createElement('p')).textContent = text;
  }
  return body;
}
