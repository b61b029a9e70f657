import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { IHardwareChoice, IHardwareChoices } from '../api/wire/index.js';
import { element, setAttribute, setText } from '../dom.js';
import type { IParameter } from '../model/runParameters.js';
import {
  type IParameterRow,
  type IRunForm,
  type RunProblem,
  selected
} from '../model/runRequest.js';
import { fileName, runHardwareText, runPriceText } from '../text/runText.js';
import { hardwareLine } from './hardwareDialog.js';

let made = 0;

/** The body of the dialog "Run on…". */
export class RunForm extends Widget {
  constructor({ path, hardware, parameters, trans }: RunForm.IOptions) {
    super();
    this._trans = trans;
    this._own = hardware.own ?? null;
    this._choices = [...(this._own ? [this._own] : []), ...hardware.choices];
    this.addClass('ec2-Dialog-body');
    this.addClass('ec2-Run');
    const intro = trans.__(
      '%1 is run from its beginning to its end on a machine of its own. It continues when this page is closed or this server stops.',
      fileName(path)
    );
    const rows = parameters.map(parameter => this._known(parameter));
    this._rows.append(...rows);
    this._add.type = 'button';
    this._add.onclick = () => this._addRow();
    setText(this._add, trans.__('Add parameter'));
    const valuesHint = trans.__(
      'Values are read as JSON or Python, such as 0.1, true or [1, 2]; all else is text.'
    );
    setAttribute(this._error, 'role', 'alert');
    setAttribute(this._price, 'role', 'status');
    setAttribute(this._hardware, 'aria-label', trans.__('Hardware'));
    this._hardware.onchange = () => this._showPrice();
    this._maxUsd.oninput = () => this._showPrice();
    this._notify.type = 'checkbox';
    this.node.append(
      element('p', '', intro),
      this._hardware,
      this._price,
      this._section(trans.__('Parameters'), this._rows, this._add, hint(valuesHint)),
      this._section(
        trans.__('Limits'),
        this._limit(this._maxUsd, trans.__('Cost cap, USD')),
        this._limit(this._hours, trans.__('Deadline, hours from now'))
      ),
      ...(hardware.reports_ends ? [this._report()] : []),
      this._error
    );
    if (rows.length === 0) {
      this._addRow(false);
    }
    this._showHardware();
  }

  /** The fields as they are typed. */
  get values(): IRunForm {
    return {
      profile: this._chosen?.profile ?? null,
      parameters: [...this._rows.children].map(row => valueOf(row as HTMLElement)),
      maxUsd: this._maxUsd.value,
      deadlineHours: this._hours.value,
      notify: this._notify.checked
    };
  }

  /** Why the run cannot be submitted; empty for nothing. The field at fault gets the focus. */
  report(text: string, problem?: RunProblem): void {
    setText(this._error, text);
    const wrong = problem && this._fieldOf(problem);
    for (const field of this.node.querySelectorAll('[aria-invalid]')) {
      field.removeAttribute('aria-invalid');
    }
    if (wrong) {
      setAttribute(wrong, 'aria-invalid', 'true');
      wrong.focus();
    }
    this._error.scrollIntoView({ block: 'nearest' });
  }

  /** While the run is being submitted nothing can be changed. */
  setBusy(isBusy: boolean): void {
    setAttribute(this.node, 'aria-busy', `${isBusy}`);
    this.node.toggleAttribute('inert', isBusy);
  }

  private get _chosen(): IHardwareChoice | null {
    const slug = this._hardware.querySelector<HTMLInputElement>('input:checked')?.value;
    return this._choices.find(({ profile }) => profile === slug) ?? null;
  }

  private _report(): HTMLElement {
    const name = this._trans.__("Notify the hub's alarm destinations when the run ends");
    return element('label', 'ec2-Run-check', this._notify, element('span', '', name));
  }

  private _showHardware(): void {
    const chosen = selected(this._choices);
    const lines = this._choices.map(choice => {
      const isOwn = choice.profile === this._own?.profile;
      return hardwareLine(choice, choice === chosen, runHardwareText(choice, isOwn, this._trans));
    });
    this._hardware.replaceChildren(...lines);
    this._showPrice();
  }

  private _showPrice(): void {
    setText(this._price, runPriceText(this._chosen, this._maxUsd.value, this._trans));
  }

  private _section(title: string, ...children: HTMLElement[]): HTMLElement {
    const legend = element('legend', 'ec2-Run-title', title);
    return element('fieldset', 'ec2-Run-section', legend, ...children);
  }

  private _limit(input: HTMLInputElement, name: string): HTMLElement {
    input.inputMode = 'decimal';
    input.placeholder = this._trans.__('none');
    return field(name, input);
  }

  /** A parameter of the notebook: its name cannot be changed. */
  private _known({ name, value, comment }: IParameter): HTMLElement {
    const input = textInput(value);
    const id = `ec2-run-${++made}`;
    input.id = id;
    input.dataset.name = name;
    input.dataset.initial = value;
    const label = element('label', 'ec2-Run-name', name);
    label.htmlFor = id;
    label.title = comment;
    return element('div', 'ec2-Run-row', label, input);
  }

  private _addRow(focus = true): void {
    const name = textInput('');
    name.placeholder = this._trans.__('name');
    setAttribute(name, 'aria-label', this._trans.__('Name of the parameter'));
    const value = textInput('');
    value.placeholder = this._trans.__('value');
    setAttribute(value, 'aria-label', this._trans.__('Value of the parameter'));
    this._rows.append(element('div', 'ec2-Run-row', name, value));
    if (focus) {
      name.focus();
    }
  }

  private _fieldOf(problem: RunProblem): HTMLElement | null {
    switch (problem.field) {
      case 'profile':
        return this._hardware.querySelector<HTMLElement>('input:enabled');
      case 'maxUsd':
        return this._maxUsd;
      case 'deadlineHours':
        return this._hours;
      case 'parameter': {
        const rows = [...this._rows.children].reverse();
        const row = rows.find(each => {
          const { name, value } = valueOf(each as HTMLElement);
          return name.trim() === problem.name && (name.trim() !== '' || value.trim() !== '');
        });
        return row?.querySelector('input') ?? null;
      }
    }
  }

  private readonly _trans: TranslationBundle;
  private readonly _own: IHardwareChoice | null;
  private readonly _choices: IHardwareChoice[];
  private readonly _hardware = element('fieldset', 'ec2-Hardware');
  private readonly _rows = element('div', 'ec2-Run-rows');
  private readonly _add = element('button', 'jp-mod-styled jp-mod-minimal ec2-Run-add');
  private readonly _maxUsd = textInput('');
  private readonly _hours = textInput('');
  private readonly _notify = element('input');
  private readonly _price = element('p', 'ec2-Run-price');
  private readonly _error = element('p', 'ec2-Run-error');
}

export namespace RunForm {
  export interface IOptions {
    path: string;
    hardware: IHardwareChoices;
    parameters: IParameter[];
    trans: TranslationBundle;
  }
}

function valueOf(row: HTMLElement): IParameterRow {
  const [first, second] = row.querySelectorAll('input');
  if (first && second) {
    return { name: first.value, value: second.value, initial: null };
  }
  const { name = '', initial = '' } = first?.dataset ?? {};
  return { name, value: first?.value ?? '', initial };
}

/** As JupyterLab draws those that are in a dialog from its beginning. */
function textInput(value: string): HTMLInputElement {
  const input = element('input', 'jp-mod-styled');
  input.type = 'text';
  input.value = value;
  input.spellcheck = false;
  input.autocomplete = 'off';
  return input;
}

/** A field beside its name. */
function field(name: string, control: HTMLElement): HTMLElement {
  return element('label', 'ec2-Run-field', element('span', '', name), control);
}

function hint(text: string): HTMLElement {
  return element('p', 'ec2-Run-hint', text);
}
