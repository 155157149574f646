/** Where the files of a log are, and how its frames are recognised. */
import type { Disk } from './disk.ts';

export interface LogFiles {
  readonly disk: Disk;
  /** The log's directory. */
  readonly dir: string;
  /** Begins every frame of this log; see `identity.ts`. */
  readonly mark: number;
}
