/** The script of a thread that archives. */
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { ThreadSettings } from './thread-messages.ts';

const lowestPriority = 19;

const settings: ThreadSettings = workerData;
// Linux gives each thread a priority of its own; elsewhere this would change that of the whole gateway.
if (settings.lowPriority && process.platform === 'linux') setPriority(0, lowestPriority);
// loaded only now, so that loading has the low priority too
const { answerRequests } = await import('./thread-requests.ts');
if (parentPort !== null) answerRequests(parentPort, settings);
