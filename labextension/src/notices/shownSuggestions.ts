/** Ids of suggestions that this browser has shown: each is made once. */

const KEY = 'ec2spawner:shown-notices';
const MAX_IDS = 50;

export function isShown(id: string): boolean {
  return shownIds().includes(id);
}

export function markShown(id: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([id, ...shownIds()].slice(0, MAX_IDS)));
  } catch {
    // A browser without storage shows it again.
  }
}

function shownIds(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(found) ? found.filter(id => typeof id === 'string') : [];
  } catch {
    return [];
  }
}
