import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import type { Message } from '@lumino/messaging';

import { sentences } from '../text/serverText.js';
import { type Form, FORMS, parts } from '../text/statusItemText.js';
import { OverflowObserver } from './overflow.js';
import type { SettingsModel } from '../model/settingsModel.js';
import type { StatusModel } from '../model/statusModel.js';
import { colouredState } from '../model/state.js';

/** A longer form is shown when there has been room for it for so long: other items come and go. */
const GROW_MS = 10_000;

/** `● A10G 87 % · 14.2/24 GB │ $1.37 · $0.42/h spot │ in use`, and shorter where room is short. */
export class StatusItem extends Widget {
  constructor({ model, settings, trans, open }: StatusItem.IOptions) {
    super();
    this._model = model;
    this._settings = settings;
    this._trans = trans;
    this._open = open;
    this.addClass('jp-StatusBar-TextItem');
    this.addClass('jp-mod-highlighted');
    this.addClass('ec2-StatusItem');
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'button');
    model.changed.connect(this.update, this);
    settings.changed.connect(this.update, this);
    this.update();
  }

  handleEvent(event: Event): void {
    if (event instanceof KeyboardEvent && event.key !== 'Enter' && event.key !== ' ') {
      return;
    }
    event.preventDefault();
    this._open();
  }

  override dispose(): void {
    this._watch?.dispose();
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('click', this);
    this.node.addEventListener('keydown', this);
    this._watch = new OverflowObserver(this.node, () => this._fit());
  }

  protected override onBeforeDetach(message: Message): void {
    window.clearTimeout(this._growth);
    this._growth = undefined;
    this._watch?.dispose();
    this._watch = null;
    this.node.removeEventListener('click', this);
    this.node.removeEventListener('keydown', this);
    super.onBeforeDetach(message);
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    const view = this._model.view;
    this.setHidden(view.phase === 'absent');
    this.node.dataset.state = colouredState(view);
    const label = sentences(view, this._trans).join('\n');
    if (this.node.title !== label) {
      this.node.title = label;
      this.node.setAttribute('aria-label', label);
    }
    const length = this._write();
    if (length !== this._length) {
      this._length = length;
      this._fit();
    }
  }

  /**
   * The longest form that fits; a longer one than now only after a while, unless the window has another
   * width. Digits change without a new fit: they all have one width.
   */
  private _fit(): void {
    const { innerWidth } = window;
    const isResized = innerWidth !== this._fittedTo;
    this._fittedTo = innerWidth;
    const before = this.node.dataset.form as Form | undefined;
    const longest = FORMS.find(form => this._fits(form)) ?? 'narrow';
    const isLonger = before !== undefined && FORMS.indexOf(longest) < FORMS.indexOf(before);
    if (isLonger && !isResized) {
      this._show(before);
      this._growth ??= window.setTimeout(() => {
        this._fittedTo = 0;
        this._fit();
      }, GROW_MS);
      return;
    }
    window.clearTimeout(this._growth);
    this._growth = undefined;
    this._show(longest);
  }

  private _fits(form: Form): boolean {
    this._show(form);
    return !this._watch?.overflows();
  }

  private _show(form: Form): void {
    this.node.dataset.form = form;
    this._length = this._write();
  }

  /** Writes the parts; answers their length. */
  private _write(): number {
    const form = FORMS.find(each => each === this.node.dataset.form) ?? 'narrow';
    const texts = parts({
      view: this._model.view,
      form,
      settings: this._settings.current,
      trans: this._trans
    });
    while (this.node.children.length > texts.length) {
      this.node.lastElementChild?.remove();
    }
    texts.forEach((text, index) => {
      const part = this.node.children[index] ?? this.node.appendChild(newPart());
      if (part.textContent !== text) {
        part.textContent = text;
      }
    });
    return texts.join().length;
  }

  private readonly _model: StatusModel;
  private readonly _settings: SettingsModel;
  private readonly _trans: TranslationBundle;
  private readonly _open: () => void;
  private _watch: OverflowObserver | null = null;
  private _length = 0;
  private _fittedTo = 0;
  private _growth: number | undefined;
}

export namespace StatusItem {
  export interface IOptions {
    model: StatusModel;
    settings: SettingsModel;
    trans: TranslationBundle;
    /** Called on click, Enter or Space. */
    open: () => void;
  }
}

function newPart(): HTMLElement {
  const part = document.createElement('span');
  part.className = 'ec2-StatusItem-part';
  return part;
}
