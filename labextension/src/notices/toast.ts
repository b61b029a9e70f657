import { Notification } from '@jupyterlab/apputils';

/** True while the notification is seen, as a toast or in the notification centre. */
export function isOnScreen(id: string): boolean {
  const centre = document.querySelector('.jp-Notification-Center');
  return document.getElementById(id) !== null || centre !== null;
}

/**
 * Let JupyterLab load now what draws its toasts.
 *
 * It loads that from the server with the first toast. If the first one says that the server is being
 * stopped, it comes too late, and no toast of this page is drawn any more. A toast that is dismissed
 * before that is loaded is never drawn; later, it would be seen, empty, while it fades.
 */
export function loadToasts(): void {
  if (document.getElementById('react-toastify-container') === null) {
    Notification.dismiss(Notification.emit('', 'default', { autoClose: false }));
  }
}
