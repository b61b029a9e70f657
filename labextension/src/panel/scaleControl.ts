import type { TranslationBundle } from '@jupyterlab/translation';

import type { IClusterStatus } from '../api/wire/index.js';
import type { ClusterActions } from '../commands/clusterActions.js';
import { element, setAttribute, setText, show } from '../dom.js';
import { MAX_WORKERS } from '../model/cluster.js';
import { endsBusyText, priceText } from '../text/clusterText.js';

/** Between a key or click and the question for the price. */
const PAUSE_MS = 300;

let made = 0;

/** Another number of workers: chosen first, applied once its price is shown. */
export class ScaleControl {
  readonly node = element('div', 'ec2-Scale');

  constructor({ actions, trans }: ScaleControl.IOptions) {
    this._actions = actions;
    this._trans = trans;
    this._less.onclick = () => this._choose(this._number - 1);
    this._more.onclick = () => this._choose(this._number + 1);
    setAttribute(this._less, 'aria-label', trans.__('One worker fewer'));
    setAttribute(this._more, 'aria-label', trans.__('One worker more'));
    this._input.type = 'number';
    this._input.min = '1';
    this._input.oninput = () => this._choose(this._input.valueAsNumber, true);
    this._input.onkeydown = event => this._onKey(event);
    this._apply.onclick = () => void this._scale();
    this._cancel.onclick = () => this._reset();
    setText(this._cancel, trans.__('Cancel'));
    this._said.setAttribute('role', 'status');
    made += 1;
    this._input.id = `ec2-scale-${made}`;
    const label = element('label', '', trans.__('Workers'));
    label.htmlFor = this._input.id;
    const row = element('div', 'ec2-Scale-row', label, this._less, this._input, this._more);
    this.node.append(row, this._said, this._choice);
  }

  /** Null where the number cannot be changed. */
  update(status: IClusterStatus | null): void {
    show(this.node, status !== null);
    if (this._status?.wanted !== status?.wanted) {
      this._status = status;
      this._reset();
    }
    this._status = status;
    setAttribute(this._input, 'max', `${this._most}`);
  }

  /** As the hub allows; what an old hub allows is unknown. */
  private get _most(): number {
    const most = this._status?.max_workers ?? 0;
    return most > 0 ? most : MAX_WORKERS;
  }

  private get _number(): number {
    return this._chosen ?? this._status?.wanted ?? 1;
  }

  private _choose(workers: number, isTyped = false): void {
    if (!Number.isInteger(workers) || workers < 1 || workers > this._most) {
      if (isTyped) {
        this._forget();
        this._write(this._trans.__('Choose 1 to %1 workers, or stop the cluster.', this._most));
      }
      return;
    }
    if (workers === this._status?.wanted) {
      this._reset();
      return;
    }
    this._forget();
    this._chosen = workers;
    this._timer = window.setTimeout(() => void this._ask(workers), PAUSE_MS);
    this._write(this._trans.__('Asking for the price…'), isTyped);
  }

  /** The price of the number that was chosen last. */
  private async _ask(workers: number): Promise<void> {
    const asked = (this._asked += 1);
    let said = '';
    let isAllowed = true;
    try {
      const price = await this._actions.price(workers);
      said = price ? priceText(price, this._trans) : this._trans.__('The price is unknown.');
    } catch (reason) {
      said = (reason as Error).message;
      isAllowed = false;
    }
    if (asked !== this._asked || this._chosen !== workers) {
      return;
    }
    this._isPriced = isAllowed;
    const ends = this._status ? endsBusyText(this._status, workers, this._trans) : '';
    this._write([said, ends].filter(Boolean).join(' '), true);
  }

  private async _scale(): Promise<void> {
    const workers = this._chosen;
    if (workers === null || !this._isPriced) {
      return;
    }
    this._isPriced = false;
    this._write(this._said.textContent ?? '', true);
    const isGranted = await this._actions.scale(workers);
    if (this._chosen === workers) {
      this._isPriced = !isGranted;
      if (isGranted) {
        this._reset();
      } else {
        this._write(this._said.textContent ?? '', true);
      }
    }
  }

  private _onKey(event: KeyboardEvent): void {
    if (event.key === 'Enter' && this._isPriced) {
      event.preventDefault();
      void this._scale();
    } else if (event.key === 'Escape' && this._chosen !== null) {
      event.preventDefault();
      this._reset();
    }
  }

  private _forget(): void {
    window.clearTimeout(this._timer);
    this._asked += 1;
    this._chosen = null;
    this._isPriced = false;
  }

  private _reset(): void {
    const hadFocus = this._choice.contains(document.activeElement);
    this._forget();
    this._write('');
    if (hadFocus) {
      this._input.focus();
    }
  }

  private _write(said: string, isTyped = false): void {
    const number = this._number;
    if (!isTyped || document.activeElement !== this._input) {
      this._input.value = `${number}`;
    }
    // Not `disabled`: the one that has just been pressed keeps the focus.
    setAttribute(this._less, 'aria-disabled', `${number <= 1}`);
    setAttribute(this._more, 'aria-disabled', `${number >= this._most}`);
    setText(this._said, said);
    show(this._choice, this._chosen !== null);
    setText(this._apply, this._trans.__('Change to %1', number));
    setAttribute(this._apply, 'aria-disabled', `${!this._isPriced}`);
  }

  private readonly _actions: ClusterActions;
  private readonly _trans: TranslationBundle;
  private readonly _less = button('ec2-Button ec2-Scale-step', '−');
  private readonly _more = button('ec2-Button ec2-Scale-step', '+');
  private readonly _input = element('input', 'ec2-Scale-input');
  private readonly _said = element('p', 'ec2-Quiet');
  private readonly _apply = button('ec2-Button jp-mod-accept');
  private readonly _cancel = button('ec2-Button');
  private readonly _choice = element('div', 'ec2-Buttons', this._apply, this._cancel);
  private _status: IClusterStatus | null = null;
  /** Null where it is the number that there is. */
  private _chosen: number | null = null;
  private _isPriced = false;
  private _asked = 0;
  private _timer = 0;
}

export namespace ScaleControl {
  export interface IOptions {
    actions: ClusterActions;
    trans: TranslationBundle;
  }
}

function button(className: string, text = ''): HTMLButtonElement {
  const made = element('button', `jp-mod-styled ${className}`, text);
  made.type = 'button';
  return made;
}
