/**
 * Loaded into a process that `npm run` started. npm runs scripts in a shell, and some shells (dash) neither replace
 * themselves by the command nor pass signals on: after npm was stopped, the command would keep running, with its port
 * taken. So the command sends itself SIGTERM when the process that started it is gone.
 */
const parent = process.ppid;
const pollMs = 250;

const timer = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(timer);
  process.kill(process.pid, 'SIGTERM');
}, pollMs);
timer.unref();
