import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableSet, type IDisposable } from '@lumino/disposable';

import type { StatusModel } from '../model/statusModel.js';
import type { ServerActions } from './serverActions.js';

export interface ICommandsOptions {
  app: JupyterFrontEnd;
  palette: ICommandPalette | null;
  model: StatusModel;
  actions: ServerActions;
  openPanel: () => void;
  trans: TranslationBundle;
}

/** Add the commands of this extension, until disposed. */
export function addCommands(options: ICommandsOptions): IDisposable {
  const { app, palette, model, actions, openPanel, trans } = options;
  const category = trans.__('Server');
  const added = new DisposableSet();
  const commands = {
    'ec2spawner:open-panel': {
      label: trans.__('Show Server Cost and Usage'),
      isVisible: () => model.view.phase !== 'absent',
      execute: openPanel
    },
    'ec2spawner:keep': {
      label: trans.__('Keep This Server On'),
      isEnabled: () => actions.keepUntil !== null,
      isVisible: () => model.view.phase !== 'absent',
      execute: () => actions.keep()
    },
    'ec2spawner:sleep': {
      label: trans.__('Let This Session Sleep…'),
      isEnabled: () => actions.maySleep,
      isVisible: () => model.view.phase !== 'absent',
      execute: () => actions.sleep()
    },
    'ec2spawner:continue': {
      label: trans.__('Continue on Other Hardware…'),
      isEnabled: () => actions.maySleep,
      isVisible: () => model.view.phase !== 'absent',
      execute: () => actions.continueElsewhere()
    },
    'ec2spawner:stop': {
      label: trans.__('Stop This Server…'),
      isEnabled: () => actions.available,
      isVisible: () => model.view.phase !== 'absent',
      execute: () => actions.stop()
    }
  };
  for (const [id, command] of Object.entries(commands)) {
    added.add(
      app.commands.addCommand(id, {
        ...command,
        describedBy: { args: { type: 'object', properties: {} } }
      })
    );
    if (palette) {
      added.add(palette.addItem({ command: id, category }));
    }
  }
  return added;
}
