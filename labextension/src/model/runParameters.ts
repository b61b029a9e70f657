/** The parameters of a notebook, by the convention of papermill. Pure. */

/** What a cell has of what is read here. */
export interface ICellContent {
  cell_type?: string;
  source?: string | string[];
  metadata?: { tags?: unknown };
}

export interface IParameter {
  name: string;
  /** As Python has it, such as `0.1` or `'adam'`. */
  value: string;
  /** What the cell says of it. */
  comment: string;
}

const ASSIGNMENT = /^([A-Za-z_]\w*)\s*(?::[^=]*)?=(?!=)\s*(.+)$/;

/** Those that the cell tagged `parameters` assigns, each in one line; none without such a cell. */
export function parametersOf(cells: readonly ICellContent[]): IParameter[] {
  const cell = cells.find(({ cell_type: type, metadata }) => {
    const tags = metadata?.tags;
    return type === 'code' && Array.isArray(tags) && tags.includes('parameters');
  });
  const source = cell?.source ?? '';
  const found = new Map<string, IParameter>();
  for (const line of (Array.isArray(source) ? source.join('') : source).split('\n')) {
    const [, name, written] = ASSIGNMENT.exec(line.trimEnd()) ?? [];
    const value = name === undefined ? null : split(written ?? '');
    if (name !== undefined && value !== null) {
      found.set(name, { name, ...value });
    }
  }
  return [...found.values()];
}

/** A value and the comment after it; null for a value of several lines. */
function split(written: string): Pick<IParameter, 'value' | 'comment'> | null {
  let quote = '';
  let depth = 0;
  let end = written.length;
  for (let i = 0; i < written.length; i++) {
    const char = written.charAt(i);
    if (quote) {
      if (char === '\\') {
        i++;
      } else if (char === quote) {
        quote = '';
      }
    } else if (char === '"' || char === "'") {
      if (written.startsWith(char.repeat(3), i)) {
        return null;
      }
      quote = char;
    } else if ('([{'.includes(char)) {
      depth++;
    } else if (')]}'.includes(char)) {
      depth--;
    } else if (char === '#') {
      end = i;
      break;
    }
  }
  const value = written.slice(0, end).trim();
  if (quote || depth !== 0 || value === '' || value.endsWith('\\')) {
    return null;
  }
  const comment = written
    .slice(end)
    .replace(/^#+\s*/, '')
    .trim();
  return { value, comment };
}
