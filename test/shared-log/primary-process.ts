/** Run by tests as a process of its own: `primary-process.ts <dir> <socket>` opens the log, serves it and prints "serving". */
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { serveSharedLog } from '../../src/events/shared/serve-shared-log.ts';

const [dir = '', socketPath = ''] = process.argv.slice(2);
const log = await EmbeddedLog.open(dir, { segmentBytes: 50_000 });
await serveSharedLog({ log, socketPath });
console.log('serving');
