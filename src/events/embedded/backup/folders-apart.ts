import { realpathSync } from 'node:fs';
import path from 'node:path';

/** Whether one folder is the other one, or in it. Symbolic links are followed, also above a folder that does not exist. */
export function isFolderWithin(folder: string, other: string): boolean {
  const [inner, outer] = [realPath(path.resolve(folder)), realPath(path.resolve(other))];
  return inner === outer || inner.startsWith(outer.endsWith(path.sep) ? outer : outer + path.sep);
}

function realPath(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    const above = path.dirname(folder);
    return above === folder ? folder : path.join(realPath(above), path.basename(folder));
  }
}
