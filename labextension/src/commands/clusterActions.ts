import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IClusterPrice } from '../api/wire/index.js';
import type { ClusterModel } from '../model/clusterModel.js';
import { stopClusterTexts } from '../text/clusterText.js';
import { confirm } from './confirmation.js';
import { failureText } from './failureText.js';

/** What the owner can do about the workers of their server. */
export class ClusterActions {
  constructor({ model, trans }: ClusterActions.IOptions) {
    this._model = model;
    this._trans = trans;
  }

  /**
   * What the cluster would cost with so many workers, of its own profile if none is named.
   *
   * @throws Error with the reason in words where the configuration or a limit does not allow so
   * many; its cause is a `RefusedError` with a sentence then.
   */
  async price(
    workers: number,
    profile: string = this._model.status?.profile ?? ''
  ): Promise<IClusterPrice | null> {
    try {
      const answer = await this._model.post({
        action: 'price',
        workers,
        profile: profile === '' ? null : profile
      });
      return answer.price;
    } catch (reason) {
      throw new Error(failureText(reason, this._trans), { cause: reason });
    }
  }

  /** Let the cluster have so many workers; answers whether that was granted. */
  async scale(workers: number): Promise<boolean> {
    try {
      await this._model.post({ action: 'scale', workers });
      return true;
    } catch (reason) {
      this._reportFailure(this._trans.__('The number of workers was not changed.'), reason);
      return false;
    }
  }

  /** Stop the cluster, after asking. */
  async stop(): Promise<void> {
    const trans = this._trans;
    const isConfirmed = await confirm({
      title: trans.__('Stop the cluster?'),
      texts: this._model.status ? stopClusterTexts(this._model.status, trans) : [],
      accept: trans.__('Stop cluster'),
      cancel: trans.__('Cancel')
    });
    if (!isConfirmed) {
      return;
    }
    try {
      await this._model.post({ action: 'stop' });
    } catch (reason) {
      this._reportFailure(trans.__('The cluster could not be stopped.'), reason);
    }
  }

  private _reportFailure(what: string, reason: unknown): void {
    Notification.error(`${what} ${failureText(reason, this._trans)}`, { autoClose: false });
  }

  private readonly _model: ClusterModel;
  private readonly _trans: TranslationBundle;
}

export namespace ClusterActions {
  export interface IOptions {
    model: ClusterModel;
    trans: TranslationBundle;
  }
}
