/** True while the notification is seen, as a toast or in the notification centre. */
export function isOnScreen(id: string): boolean {
  const centre = document.querySelector('.jp-Notification-Center');
  return document.getElementById(id) !== null || centre !== null;
}
