import { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IHardwareChoices } from '../api/wire/index.js';
import { bodyOf, type IRunBody, problemOf } from '../model/runRequest.js';
import type { IParameter } from '../model/runParameters.js';
import { runProblemText } from '../text/runText.js';
import { RunForm } from './runForm.js';

/** The index of the button that submits. */
const SUBMIT = 1;

/** Asks how to run a file. It stays open, with all that was typed, until the run is submitted. */
export class RunDialog extends Dialog<unknown> {
  constructor(options: RunDialog.IOptions) {
    const { trans } = options;
    const form = new RunForm(options);
    super({
      title: trans.__('Run on…'),
      body: form,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Run') })
      ],
      defaultButton: SUBMIT,
      focusNodeSelector: 'input:checked'
    });
    this.addClass('ec2-RunDialog');
    this._form = form;
    this._options = options;
  }

  /** As JupyterLab's, but that the accept button submits first, and closes only after that. */
  override resolve(index?: number): void {
    if ((index ?? SUBMIT) !== SUBMIT) {
      super.resolve(index);
    } else if (!this._isBusy) {
      void this._submit();
    }
  }

  private async _submit(): Promise<void> {
    const { path, submit, trans } = this._options;
    const values = this._form.values;
    const problem = problemOf(values);
    if (problem) {
      this._form.report(runProblemText(problem, trans), problem);
      return;
    }
    this._isBusy = true;
    this._form.report('');
    this._form.setBusy(true);
    const refusal = await submit(bodyOf(path, values));
    this._isBusy = false;
    if (this.isDisposed) {
      return; // dismissed meanwhile
    }
    this._form.setBusy(false);
    if (refusal === '') {
      super.resolve(SUBMIT);
    } else {
      this._form.report(refusal);
    }
  }

  private readonly _form: RunForm;
  private readonly _options: RunDialog.IOptions;
  private _isBusy = false;
}

export namespace RunDialog {
  export interface IOptions {
    path: string;
    hardware: IHardwareChoices;
    parameters: IParameter[];
    /** Answers why the run was not submitted; empty where it was. */
    submit: (body: IRunBody) => Promise<string>;
    trans: TranslationBundle;
  }
}
