import { Dialog } from '@jupyterlab/apputils';

import { setAttribute } from '../dom.js';
import type { IClusterRequest } from '../model/clusterRequest.js';
import { ClusterForm } from './clusterForm.js';

/** The index of the button that starts the cluster. */
const START = 1;

/** Asks which cluster to start. It can be started once its price is shown. */
export class ClusterDialog extends Dialog<IClusterRequest | null> {
  constructor(options: ClusterDialog.IOptions) {
    const { notebook, trans } = options;
    const form = new ClusterForm({ ...options, onReady: () => this._showReady() });
    super({
      title: trans.__('Start a cluster'),
      body: form,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({
          label: notebook === null ? trans.__('Start in a new notebook') : trans.__('Start'),
          className: 'ec2-ClusterDialog-start'
        })
      ],
      defaultButton: START,
      focusNodeSelector: 'input[type=number]'
    });
    this.addClass('ec2-ClusterDialog');
    this._form = form;
    this._showReady();
    form.begin();
  }

  /** As JupyterLab's, but that nothing is started whose price is not shown. */
  override resolve(index?: number): void {
    if ((index ?? START) !== START || this._form.isReady) {
      super.resolve(index);
    }
  }

  /** Not `disabled`: who has just pressed the button keeps the focus. */
  private _showReady(): void {
    const start = this.node.querySelector('.ec2-ClusterDialog-start');
    if (start) {
      setAttribute(start, 'aria-disabled', `${!this._form.isReady}`);
    }
  }

  private readonly _form: ClusterForm;
}

export namespace ClusterDialog {
  export type IOptions = Omit<ClusterForm.IOptions, 'onReady'>;
}
