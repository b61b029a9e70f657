import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { DEFAULT_SETTINGS, type ISettings, readSettings } from '../settings.js';

/** The settings as they hold now: the defaults until they are loaded, or where that fails. */
export class SettingsModel implements IDisposable {
  constructor({ registry, pluginId }: SettingsModel.IOptions) {
    if (registry) {
      void this._load(registry, pluginId);
    }
  }

  get current(): Readonly<ISettings> {
    return this._current;
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

  private async _load(registry: ISettingRegistry, pluginId: string): Promise<void> {
    try {
      const loaded = await registry.load(pluginId);
      if (!this._isDisposed) {
        loaded.changed.connect(this._read, this);
        this._read(loaded);
      }
    } catch (reason) {
      console.warn('ec2spawner: the settings cannot be read, the defaults are used', reason);
    }
  }

  private _read({ composite }: ISettingRegistry.ISettings): void {
    this._current = readSettings(composite);
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _current: Readonly<ISettings> = DEFAULT_SETTINGS;
  private _isDisposed = false;
}

export namespace SettingsModel {
  export interface IOptions {
    /** Null where the application has none. */
    registry: ISettingRegistry | null;
    pluginId: string;
  }
}
