import type { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { RefusedError } from '../api/request.js';
import type { Engine, IClusterPrice, IClusterStatus, IHardwareChoice } from '../api/wire/index.js';
import { element, setAttribute, setText, show } from '../dom.js';
import { cellOf, firstRequest, type IClusterRequest, workersOf } from '../model/clusterRequest.js';
import { startPriceText } from '../text/clusterText.js';
import { runHardwareText } from '../text/runText.js';
import { hardwareLine } from './hardwareDialog.js';

/** Between a key and the question for the price. */
const PAUSE_MS = 300;

let made = 0;

/** The body of the dialog that starts a cluster. */
export class ClusterForm extends Widget implements Dialog.IBodyWidget<IClusterRequest | null> {
  constructor(options: ClusterForm.IOptions) {
    super();
    this._options = options;
    const { own, choices, status, trans } = options;
    this._choices = [...(own ? [own] : []), ...choices];
    this.addClass('ec2-Dialog-body');
    this.addClass('ec2-Run');
    const first = firstRequest(status, this._choices);
    this.node.append(
      element('p', '', trans.__('Workers are machines of their own. They end with this server.')),
      this._workers(first.workers),
      this._section(trans.__('Each worker'), this._hardware(first.profile)),
      this._section(trans.__('Engine'), this._engines(first.engine)),
      this._price(),
      ...this._cell()
    );
    this.node.oninput = event => this._changed(event.target === this._number);
  }

  /** Ask for the first price. */
  begin(): void {
    this._changed(false);
  }

  /** Whether the price of what is chosen is shown. */
  get isReady(): boolean {
    return this._isPriced;
  }

  getValue(): IClusterRequest | null {
    const workers = workersOf(this._number.value, this._options.status.max_workers);
    const profile = this._radio('ec2-hardware');
    return workers === null || profile === ''
      ? null
      : { workers, profile, engine: this._radio('ec2-engine') as Engine };
  }

  override dispose(): void {
    window.clearTimeout(this._timer);
    this._asked += 1;
    super.dispose();
  }

  private _changed(isTyped: boolean): void {
    window.clearTimeout(this._timer);
    this._asked += 1;
    this._isPriced = false;
    const { status, trans } = this._options;
    const wanted = this.getValue();
    const isWrong = workersOf(this._number.value, status.max_workers) === null;
    setAttribute(this._number, 'aria-invalid', `${isWrong}`);
    if (wanted) {
      setText(this._code, cellOf(wanted));
      this._say(trans.__('Asking for the price…'));
      this._timer = window.setTimeout(() => void this._ask(wanted), isTyped ? PAUSE_MS : 0);
    } else {
      this._say(
        isWrong
          ? trans.__('Choose 1 to %1 workers.', status.max_workers)
          : trans.__('Choose the hardware of the workers.')
      );
    }
    this._options.onReady();
  }

  private async _ask(wanted: IClusterRequest): Promise<void> {
    const { price, trans, onReady } = this._options;
    const asked = (this._asked += 1);
    try {
      const found = await price(wanted);
      if (asked === this._asked) {
        const unknown = { sum: trans.__('The price is unknown.'), detail: '' };
        const { sum, detail } = found ? startPriceText(found, trans) : unknown;
        this._isPriced = true;
        this._say(sum, detail, 'sum');
        onReady();
      }
    } catch (reason) {
      if (asked === this._asked) {
        const { message, cause } = reason as Error;
        this._say(message, '', 'refusal');
        show(this._retry, !(cause instanceof RefusedError && cause.sentence !== null));
      }
    }
  }

  private _say(text: string, detail = '', kind: 'note' | 'sum' | 'refusal' = 'note'): void {
    setText(this._sum, text);
    setText(this._detail, detail);
    setAttribute(this._said, 'data-kind', kind);
    show(this._retry, false);
  }

  private _workers(first: number): HTMLElement {
    const { status, trans } = this._options;
    const { max_workers: most } = status;
    this._number.type = 'number';
    this._number.min = '1';
    this._number.max = `${most}`;
    this._number.value = `${first}`;
    this._number.id = `ec2-workers-${++made}`;
    const label = element('label', 'ec2-Run-title', trans.__('Workers'));
    label.htmlFor = this._number.id;
    const hint = element('span', 'ec2-Run-hint', trans.__('at most %1', most));
    hint.id = `${this._number.id}-hint`;
    setAttribute(this._number, 'aria-describedby', hint.id);
    return element('div', 'ec2-ClusterDialog-workers', label, this._number, hint);
  }

  private _hardware(first: string): HTMLElement[] {
    const { own, trans } = this._options;
    return this._choices.map(choice =>
      hardwareLine(choice, choice.profile === first, runHardwareText(choice, choice === own, trans))
    );
  }

  private _engines(first: Engine): HTMLElement[] {
    const { trans } = this._options;
    return [
      engineLine('ray', 'Ray', trans.__('Ray Train, Data and Tune, with cluster.ray'), first),
      engineLine(
        'torchrun',
        'torchrun',
        trans.__('A training script on all workers, with cluster.run("train.py")'),
        first
      )
    ];
  }

  private _section(title: string, lines: HTMLElement[]): HTMLElement {
    const legend = element('legend', 'ec2-Run-title', title);
    const list = element('div', 'ec2-Hardware', ...lines);
    return element('fieldset', 'ec2-Run-section', legend, list);
  }

  private _price(): HTMLElement {
    const { trans } = this._options;
    setAttribute(this._said, 'role', 'status');
    this._retry.type = 'button';
    this._retry.onclick = () => this._changed(false);
    setText(this._retry, trans.__('Try again'));
    show(this._retry, false);
    return element('div', 'ec2-ClusterDialog-price', this._said, this._retry);
  }

  /** Where the cell goes, and what is in it. */
  private _cell(): HTMLElement[] {
    const { notebook, isBusy, trans } = this._options;
    const where =
      notebook === null
        ? trans.__(
            'It is started by a cell of a notebook with a Python kernel. None is in front, so a new one is opened with this cell:'
          )
        : trans.__('This cell is added to %1 and run:', notebook);
    const busy = trans.__('Its kernel is busy: the cell runs after what runs now.');
    return [
      element('p', '', where),
      this._code,
      ...(isBusy ? [element('p', 'ec2-Run-hint', busy)] : [])
    ];
  }

  /** The value of the one that is chosen; empty without one. */
  private _radio(name: string): string {
    const chosen = this.node.querySelector<HTMLInputElement>(`input[name=${name}]:checked`);
    return chosen?.value ?? '';
  }

  private readonly _options: ClusterForm.IOptions;
  private readonly _choices: readonly IHardwareChoice[];
  private readonly _number = element('input', 'jp-mod-styled');
  private readonly _sum = element('p', 'ec2-ClusterDialog-sum');
  private readonly _detail = element('p', 'ec2-Run-hint');
  private readonly _said = element('div', '', this._sum, this._detail);
  private readonly _retry = element('button', 'jp-mod-styled jp-mod-minimal ec2-Run-add');
  private readonly _code = element('pre', 'ec2-ClusterDialog-code');
  private _isPriced = false;
  private _asked = 0;
  private _timer = 0;
}

export namespace ClusterForm {
  export interface IOptions {
    status: IClusterStatus;
    own: IHardwareChoice | null;
    choices: readonly IHardwareChoice[];
    /** The notebook that gets the cell; null for a new one. */
    notebook: string | null;
    /** Whether its kernel has something to do. */
    isBusy: boolean;
    /** Throws an Error in words; its cause is a `RefusedError` with a sentence where the hub refuses. */
    price: (wanted: IClusterRequest) => Promise<IClusterPrice | null>;
    /** `isReady` may have changed. */
    onReady: () => void;
    trans: TranslationBundle;
  }
}

function engineLine(engine: Engine, name: string, note: string, first: Engine): HTMLElement {
  const radio = element('input');
  radio.type = 'radio';
  radio.name = 'ec2-engine';
  radio.value = engine;
  radio.checked = engine === first;
  return element(
    'label',
    'ec2-Hardware-choice',
    radio,
    element('span', 'ec2-Hardware-name', name),
    element('span'),
    element('span', 'ec2-Hardware-note', note)
  );
}
