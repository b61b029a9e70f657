/** What a person chose in JupyterLab's settings, see `schema/plugin.json`. Pure. */

export type TemperatureUnit = 'celsius' | 'fahrenheit';

export interface ISettings {
  statusBarUsage: boolean;
  statusBarCost: boolean;
  statusBarState: boolean;
  notices: boolean;
  temperatureUnit: TemperatureUnit;
}

export const DEFAULT_SETTINGS: Readonly<ISettings> = {
  statusBarUsage: true,
  statusBarCost: true,
  statusBarState: true,
  notices: true,
  temperatureUnit: 'celsius'
};

/** The settings in `composite`; a value that is missing or not allowed counts as the default. */
export function readSettings(composite: Readonly<Record<string, unknown>>): ISettings {
  const flag = (name: Exclude<keyof ISettings, 'temperatureUnit'>): boolean => {
    const value = composite[name];
    return typeof value === 'boolean' ? value : DEFAULT_SETTINGS[name];
  };
  return {
    statusBarUsage: flag('statusBarUsage'),
    statusBarCost: flag('statusBarCost'),
    statusBarState: flag('statusBarState'),
    notices: flag('notices'),
    temperatureUnit: composite.temperatureUnit === 'fahrenheit' ? 'fahrenheit' : 'celsius'
  };
}
