import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate, DisposableSet, type IDisposable } from '@lumino/disposable';

import type { StatusModel } from '../model/statusModel.js';
import type { ClusterStart } from './clusterStart.js';
import { RUN_ON_ARGS, type RunOn } from './runOn.js';
import type { ServerActions } from './serverActions.js';

type ICommandOptions = Parameters<JupyterFrontEnd['commands']['addCommand']>[1];

const RUN_ON = 'ec2spawner:run-on';

export interface ICommandsOptions {
  app: JupyterFrontEnd;
  palette: ICommandPalette | null;
  model: StatusModel;
  actions: ServerActions;
  runOn: RunOn;
  clusterStart: ClusterStart;
  openPanel: () => void;
  trans: TranslationBundle;
}

/** Add the commands of this extension, until disposed. */
export function addCommands(options: ICommandsOptions): IDisposable {
  const { app, palette, model, actions, runOn, clusterStart, openPanel, trans } = options;
  const category = trans.__('Server');
  const added = new DisposableSet();
  const commands: Record<string, ICommandOptions> = {
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
    [RUN_ON]: {
      label: trans.__('Run on…'),
      describedBy: { args: RUN_ON_ARGS },
      caption: trans.__('Run this notebook or script to completion on a machine of its own'),
      // A toolbar is drawn before its notebook is the current tab.
      isEnabled: args => actions.available && (args.toolbar === true || runOn.path(args) !== null),
      isVisible: () => actions.available,
      execute: args => runOn.run(args)
    },
    'ec2spawner:show-runs': {
      label: trans.__('Show Runs'),
      caption: trans.__(
        'Open the page of your runs: state, progress, cost, and what they have written'
      ),
      isVisible: () => actions.available && runOn.hasPage,
      execute: () => runOn.openPage()
    },
    'ec2spawner:start-cluster': {
      label: trans.__('Start a Cluster…'),
      caption: trans.__('Start workers on machines of their own, from a notebook'),
      isEnabled: () => clusterStart.available,
      isVisible: () => clusterStart.available,
      execute: () => clusterStart.run()
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
        describedBy: command.describedBy ?? { args: { type: 'object', properties: {} } }
      })
    );
    if (palette) {
      added.add(palette.addItem({ command: id, category }));
    }
  }
  // Toolbars ask again only when they are notified.
  let wasAvailable = actions.available;
  const onChanged = (): void => {
    if (actions.available !== wasAvailable) {
      wasAvailable = actions.available;
      app.commands.notifyCommandChanged(RUN_ON);
    }
  };
  model.changed.connect(onChanged);
  added.add(new DisposableDelegate(() => void model.changed.disconnect(onChanged)));
  return added;
}
