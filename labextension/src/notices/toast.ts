import { Notification } from '@jupyterlab/apputils';

/** True while the notification is seen, as a toast or in the notification centre. */
export function isOnScreen(id: string): boolean {
  const centre = document.querySelector('.jp-Notification-Center');
  return document.getElementById(id) !== null || centre !== null;
}

/**
 * Let JupyterLab load now what draws its toasts.
 *
 * It loads that from the server with the first toast. Where the first one says that the server is
 * being stopped, it would come too late, and no toast of this page would be seen any more. One that
 * is dismissed at once is never drawn.
 */
export function loadToasts(): void {
  Notification.dismiss(Notification.emit('', 'default', { autoClose: false }));
}
