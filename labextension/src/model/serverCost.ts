import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IServerCost } from '../tokens.js';
import { costAt, knownPrice } from './state.js';
import type { StatusModel } from './statusModel.js';

/** The cost of this server as other extensions see it. */
export class ServerCost implements IServerCost, IDisposable {
  constructor({ model }: ServerCost.IOptions) {
    this._model = model;
    model.changed.connect(this._onChanged, this);
  }

  get current(): IServerCost.IFigures | null {
    const { status, now } = this._model.view;
    const cost = status?.managed ? status.cost : null;
    const price = cost && knownPrice(cost);
    return (
      cost && {
        usd: costAt(cost, now),
        usdPerHour: price === null || price.isLowerBound ? null : price.usd,
        isEstimate: cost.estimate,
        market: cost.market,
        monthUsd: cost.month_usd,
        budgetUsd: cost.budget_usd
      }
    );
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private _onChanged(): void {
    this._changed.emit();
  }

  private readonly _model: StatusModel;
  private readonly _changed = new Signal<this, void>(this);
  private _isDisposed = false;
}

export namespace ServerCost {
  export interface IOptions {
    model: StatusModel;
  }
}
