import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, IThemeManager } from '@jupyterlab/apputils';
import { IConnectionStatus } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { DisposableSet, type IDisposable } from '@lumino/disposable';

import { reportInput } from './api/inputReport.js';
import { ClusterActions } from './commands/clusterActions.js';
import { ClusterStart } from './commands/clusterStart.js';
import { addCommands } from './commands/commands.js';
import { RunOn } from './commands/runOn.js';
import { ServerActions } from './commands/serverActions.js';
import { HeldSaves } from './documents/heldSaves.js';
import { openKernels, reconnectKernels } from './documents/kernelReconnection.js';
import { MissedOutputs } from './documents/missedOutputs.js';
import { openCell } from './documents/pythonNotebook.js';
import { ScrollPositions } from './documents/scrollPositions.js';
import { ScrollRestoration } from './documents/scrollRestoration.js';
import { chipIcon } from './icon.js';
import { ClusterModel } from './model/clusterModel.js';
import { HistoryModel } from './model/historyModel.js';
import { ServerCost } from './model/serverCost.js';
import { SettingsModel } from './model/settingsModel.js';
import { StatusModel } from './model/statusModel.js';
import { ConnectionLostNotification } from './notices/connectionLostNotification.js';
import { connectionLostPlugins } from './notices/connectionLostPlugin.js';
import { NoticeNotifications } from './notices/noticeNotifications.js';
import { loadToasts } from './notices/toast.js';
import { Panel } from './panel/panel.js';
import { WorkerOpener } from './panel/workerOpener.js';
import { StatusItem } from './statusbar/statusItem.js';
import { IServerCost } from './tokens.js';

export { IServerCost } from './tokens.js';

const PLUGIN_ID = 'ec2spawner-lab:plugin';

/** All that the plugin has made; empty while it is not active. */
let made = new DisposableSet();

const plugin: JupyterFrontEndPlugin<IServerCost> = {
  id: PLUGIN_ID,
  description: 'What this server costs, what its GPU does, and when it stops.',
  autoStart: true,
  provides: IServerCost,
  optional: [
    IStatusBar,
    ICommandPalette,
    ITranslator,
    ILayoutRestorer,
    IThemeManager,
    IConnectionStatus,
    ISettingRegistry,
    IStateDB
  ],
  activate: (
    app: JupyterFrontEnd,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    themes: IThemeManager | null,
    connection: IConnectionStatus | null,
    registry: ISettingRegistry | null,
    state: IStateDB | null
  ): IServerCost => {
    made = new DisposableSet();
    const own = <T extends IDisposable>(item: T): T => {
      made.add(item);
      return item;
    };
    const trans = (translator ?? nullTranslator).load('ec2spawner_lab');
    const { serverSettings, events } = app.serviceManager;
    const settings = own(new SettingsModel({ registry, pluginId: PLUGIN_ID }));
    const model = own(new StatusModel({ serverSettings }));
    const saves = own(new HeldSaves({ app, model, trans }));
    const actions = new ServerActions({ app, model, saves, trans });
    const isWatched = (): boolean => panel.isVisible && model.view.phase === 'live';
    const history = own(new HistoryModel({ serverSettings, isWatched }));
    const hasAgent = (): boolean =>
      model.view.phase === 'live' && model.view.status?.managed === true;
    const cluster = own(new ClusterModel({ serverSettings, mayAsk: hasAgent, isWatched }));
    const clusterActions = new ClusterActions({ model: cluster, trans });
    const clusterStart = new ClusterStart({
      app,
      server: actions,
      model: cluster,
      actions: clusterActions,
      trans
    });
    const opener = new WorkerOpener(app);
    const panel: Panel = own(
      new Panel({
        model,
        history,
        cluster,
        clusterActions,
        clusterStart,
        actions,
        opener,
        settings,
        themes,
        trans
      })
    );
    panel.id = 'ec2spawner-panel';
    panel.title.icon = chipIcon;
    panel.title.caption = trans.__('This Server');
    app.shell.add(panel, 'right', { rank: 1000 });
    restorer?.add(panel, panel.id);
    const openPanel = (): void => app.shell.activateById(panel.id);
    const item = own(new StatusItem({ model, settings, trans, open: openPanel }));
    item.id = 'ec2spawner-status';
    own(showItem(app, statusBar, item, model));
    const runOn = new RunOn({ app, trans });
    own(addCommands({ app, palette, model, actions, runOn, clusterStart, openPanel, trans }));
    void app.restored.then(loadToasts);
    own(
      new NoticeNotifications({
        model,
        actions,
        settings,
        shell: app.shell,
        events: events.stream,
        openPanel,
        openCell: cell => void openCell(app, cell),
        trans
      })
    );
    own(new ConnectionLostNotification({ app, model, saves, connection, trans }));
    own(reportInput(serverSettings, () => model.view.phase === 'live'));
    const missed = own(new MissedOutputs(serverSettings, model));
    own(app.docRegistry.addWidgetExtension('Notebook', missed));
    if (state) {
      const positions = own(new ScrollRestoration(new ScrollPositions(state)));
      own(app.docRegistry.addWidgetExtension('Notebook', positions));
    }
    own(reconnectKernels(model, () => openKernels(app.shell)));
    const cost = own(new ServerCost({ model }));
    // A server without this extension has nothing to show; not within the model's own signal.
    model.changed.connect(() => {
      if (model.view.phase === 'absent') {
        queueMicrotask(deactivate);
      }
    }, made);
    return cost;
  },
  deactivate
};

function deactivate(): void {
  made.dispose();
}

/** In the status bar, or at the top where there is none: Notebook has its status up there. */
function showItem(
  app: JupyterFrontEnd,
  statusBar: IStatusBar | null,
  item: StatusItem,
  model: StatusModel
): IDisposable {
  if (!statusBar) {
    app.shell.add(item, 'top', { rank: 1000 });
    return item;
  }
  return statusBar.registerStatusItem(item.id, {
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

export default [plugin, ...connectionLostPlugins()];
