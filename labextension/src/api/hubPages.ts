import { PageConfig, URLExt } from '@jupyterlab/coreutils';

/** True where a hub runs this server. */
export function hasHub(): boolean {
  return PageConfig.getOption('hubPrefix') !== '';
}

/** The address of a page of the hub, from the parts of its path that follow the hub's prefix. */
export function hubUrl(...parts: string[]): string {
  const path = URLExt.join(PageConfig.getOption('hubPrefix'), ...parts.map(encodeURIComponent));
  return PageConfig.getOption('hubHost') + path;
}
