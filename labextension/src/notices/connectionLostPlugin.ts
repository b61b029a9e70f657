import { IConnectionLost, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';

/**
 * Takes the place of the dialogs of JupyterLab and of its hub extension, which cover the page:
 * `ConnectionLostNotification` says more. Where no agent stands behind the server it is not registered, and theirs
 * stay.
 */
const connectionLost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: 'ec2spawner-lab:connection-lost',
  description: 'Says why the server has gone, without a dialog.',
  autoStart: true,
  provides: IConnectionLost,
  activate: () => () => Promise.resolve()
};

/** By what the server wrote into the page. */
export function connectionLostPlugins(): JupyterFrontEndPlugin<IConnectionLost>[] {
  return PageConfig.getOption('ec2spawnerManaged') === 'true' ? [connectionLost] : [];
}
