/** Stands in for the analytics process: its behaviour is the name of its database. */
import { once } from 'node:events';
import { analyticsJob } from '../../src/analytics/messages.ts';

process.once('disconnect', () => process.exit(0));
const [message] = await once(process, 'message');
const job = analyticsJob.parse(message);
console.log(`stub ${process.pid}`);

const report = (more: object = {}) =>
  process.send?.(
    { type: 'analytics', state: 'live', share: 'low', position: 1, lagEvents: 0, lagMs: 0, ...more },
    undefined,
    {},
    () => {},
  );

report();
switch (job.database) {
  case 'asks':
    process.on('message', (answer) => console.log(`answer ${JSON.stringify(answer)}`));
    process.send?.({ type: 'query', id: 7, user: 'analyst', query: 'SELECT 1', parameters: { a: 'b' } });
    break;
  case 'spins':
    setTimeout(() => {
      for (;;);
    }, 100);
    break;
  case 'sleeps':
    setInterval(() => {}, 1000);
    break;
  case 'late':
    setTimeout(() => report({ lagEvents: 100, lagMs: 90_000 }), 100);
    break;
  case 'late_and_fair':
    setInterval(() => report({ lagEvents: 100, lagMs: 90_000, share: 'fair', state: 'catching-up' }), 100);
    break;
  case 'late_and_waiting':
    setInterval(() => report({ lagEvents: 100, lagMs: 90_000, state: 'waiting', error: 'no server' }), 100);
    break;
  default:
    setInterval(() => report(), 100);
}
