import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { RefusedError } from '../api/request.js';
import type { IClusterPrice } from '../api/wire/index.js';
import type { ClusterModel } from '../model/clusterModel.js';
import { sentenceText } from '../text/sentenceText.js';
import { confirm } from './confirmation.js';

/** What the owner can do about the workers of their server. */
export class ClusterActions {
  constructor({ model, trans }: ClusterActions.IOptions) {
    this._model = model;
    this._trans = trans;
  }

  /**
   * What the cluster would cost with so many workers.
   *
   * @throws Error with the reason where the configuration does not allow so many, in words.
   */
  async price(workers: number): Promise<IClusterPrice | null> {
    const profile = this._model.status?.profile ?? '';
    try {
      const answer = await this._model.post({
        action: 'price',
        workers,
        profile: profile === '' ? null : profile
      });
      return answer.price;
    } catch (reason) {
      throw new Error(this._why(reason), { cause: reason });
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
      texts: [
        trans.__('All workers end, with what runs on them. Their local files are not kept.'),
        trans.__('This server stays on, with its notebooks and kernels.')
      ],
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
    Notification.error(`${what} ${this._why(reason)}`, { autoClose: false });
  }

  private _why(reason: unknown): string {
    const sentence = reason instanceof RefusedError ? reason.sentence : null;
    return sentence
      ? sentenceText(sentence, this._trans)
      : this._trans.__('The server does not respond. Try again in a moment.');
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
