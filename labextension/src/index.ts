import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, IThemeManager } from '@jupyterlab/apputils';
import { IConnectionStatus } from '@jupyterlab/services';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

import { ServerActions } from './commands/serverActions.js';
import { HistoryModel } from './model/historyModel.js';
import { connectionLostPlugins } from './notices/connectionLostPlugin.js';
import { chipIcon } from './icon.js';
import { reportInput } from './api/inputReport.js';
import { ConnectionLostNotification } from './notices/connectionLostNotification.js';
import { StatusModel } from './model/statusModel.js';
import { NoticeNotifications } from './notices/noticeNotifications.js';
import { WorkerOpener } from './panel/workerOpener.js';
import { Panel } from './panel/panel.js';
import { StatusItem } from './statusbar/statusItem.js';
import { loadToasts } from './notices/toast.js';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'ec2spawner-lab:status',
  description: 'What this server costs, what its GPU does, and when it stops.',
  autoStart: true,
  optional: [
    IStatusBar,
    ICommandPalette,
    ITranslator,
    ILayoutRestorer,
    IThemeManager,
    IConnectionStatus
  ],
  activate: (
    app: JupyterFrontEnd,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    themes: IThemeManager | null,
    connection: IConnectionStatus | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('ec2spawner_lab');
    const { serverSettings, events } = app.serviceManager;
    const model = new StatusModel(serverSettings);
    const actions = new ServerActions(app, model, trans);
    const panel = newPanel(app, model, actions, themes, trans);
    app.shell.add(panel, 'right', { rank: 1000 });
    restorer?.add(panel, panel.id);
    const openPanel = (): void => app.shell.activateById(panel.id);
    const item = new StatusItem(model, trans, openPanel);
    item.id = 'ec2spawner-status';
    showItem(app, statusBar, item, model);
    addCommands(app, palette, model, actions, openPanel, trans);
    void app.restored.then(loadToasts);
    new NoticeNotifications(model, actions, events.stream, openPanel, trans);
    new ConnectionLostNotification(app, model, connection, trans);
    reportInput(serverSettings, () => model.view.phase === 'live');
  }
};

function newPanel(
  app: JupyterFrontEnd,
  model: StatusModel,
  actions: ServerActions,
  themes: IThemeManager | null,
  trans: TranslationBundle
): Panel {
  const isWatched = (): boolean => panel.isVisible && model.view.phase === 'live';
  const history = new HistoryModel(app.serviceManager.serverSettings, isWatched);
  const panel: Panel = new Panel(model, history, actions, new WorkerOpener(app), themes, trans);
  panel.id = 'ec2spawner-panel';
  panel.title.icon = chipIcon;
  panel.title.caption = trans.__('This Server');
  model.changed.connect(() => {
    if (model.view.phase === 'absent') {
      history.dispose();
      panel.dispose();
    }
  });
  return panel;
}

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
  actions: ServerActions,
  openPanel: () => void,
  trans: TranslationBundle
): void {
  const category = trans.__('Server');
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

export default [plugin, ...connectionLostPlugins()];
