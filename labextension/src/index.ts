import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

import { Actions } from './actions.js';
import { reportInput } from './input.js';
import { StatusModel } from './model.js';
import { StatusItem } from './statusItem.js';
import { Warning } from './warning.js';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'ec2spawner-lab:status',
  description: 'What this server costs, what its GPU does, and when it stops.',
  autoStart: true,
  optional: [IStatusBar, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('ec2spawner_lab');
    const { serverSettings } = app.serviceManager;
    const model = new StatusModel(serverSettings);
    const actions = new Actions(app, model, trans);
    const item = new StatusItem(model, trans, () => void actions.showDetails());
    item.id = 'ec2spawner-status';
    showItem(app, statusBar, item, model);
    addCommands(app, palette, model, actions, trans);
    new Warning(model, actions, trans);
    reportInput(serverSettings);
  }
};

/** In the status bar, or at the top where there is none: Notebook has its status up there. */
function showItem(
  app: JupyterFrontEnd,
  statusBar: IStatusBar | null,
  item: StatusItem,
  model: StatusModel
): void {
  if (!statusBar) {
    app.shell.add(item, 'top', { rank: 1000 });
    return;
  }
  statusBar.registerStatusItem(item.id, {
    item,
    align: 'right',
    // Outermost of the right side, so that nothing else moves when its width changes.
    rank: 1000,
    // It has its own short form for a narrow window.
    priority: 1,
    isActive: () => model.view.phase !== 'absent',
    activeStateChanged: model.changed
  });
}

function addCommands(
  app: JupyterFrontEnd,
  palette: ICommandPalette | null,
  model: StatusModel,
  actions: Actions,
  trans: TranslationBundle
): void {
  const category = trans.__('Server');
  const commands = {
    'ec2spawner:details': {
      label: trans.__('Show What This Server Costs and When It Stops'),
      isVisible: () => model.view.phase !== 'absent',
      execute: () => actions.showDetails()
    },
    'ec2spawner:stop': {
      label: trans.__('Stop This Server…'),
      isEnabled: () => actions.available,
      isVisible: () => model.view.phase !== 'absent',
      execute: () => actions.stop()
    }
  };
  for (const [id, options] of Object.entries(commands)) {
    app.commands.addCommand(id, {
      ...options,
      describedBy: { args: { type: 'object', properties: {} } }
    });
    palette?.addItem({ command: id, category });
  }
}

export default plugin;
