/** Runs npm and other programs, with the environment of a project of their own. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';

/** Runs the npm that started this process, else the one on the PATH. */
export function npm(root, words, options = {}) {
  const args = [...words, '--no-audit', '--no-fund', '--loglevel=error'];
  const ours = process.env.npm_execpath;
  const isNpm = ours !== undefined && /^npm(-cli)?\.[cm]?js$/.test(basename(ours)) && existsSync(ours);
  return isNpm ? run(process.execPath, [ours, ...args], root, options) : run('npm', args, root, options);
}

/**
 * Runs a command to its end, also when this process gets a signal, and collects its output.
 * @param timeoutMs the command is ended after this time; default: no limit
 * @param env variables in addition to those of this process
 * @returns `signal`: the signal that this process got meanwhile and passed on to the command
 */
export function run(command, args, cwd, { timeoutMs, env = {} } = {}) {
  return new Promise((done) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...environmentFor(cwd), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: process.platform === 'win32' && command === 'npm',
    });
    const output = [];
    let received;
    const stop = (signal) => {
      received = signal;
      child.kill(signal);
    };
    process.on('SIGINT', stop).on('SIGTERM', stop).on('SIGHUP', stop);
    child.stdout.on('data', (piece) => output.push(piece));
    child.stderr.on('data', (piece) => output.push(piece));
    const end = (code, more) => {
      process.off('SIGINT', stop).off('SIGTERM', stop).off('SIGHUP', stop);
      clearTimeout(limit);
      done({ code, output: Buffer.concat(output).toString() + more, signal: received });
    };
    child.on('error', (error) => end(1, `${command} could not be started: ${error.message}`));
    child.on('close', (code, signal) => end(code, signal === null ? '' : `stopped by ${signal}`));
    const stopLate = () => {
      child.kill('SIGKILL');
      // A process that the command started may hold its output open.
      child.stdout.destroy();
      child.stderr.destroy();
      end(1, `It was stopped after ${timeoutMs / 1000} s.`);
    };
    const limit = timeoutMs === undefined ? undefined : setTimeout(stopLate, timeoutMs);
  });
}

/** The environment without the variables of an outer `npm run`, which describe another package. */
function environmentFor(cwd) {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^npm_(package|lifecycle|command|config_local_prefix)/.test(name) && name !== 'INIT_CWD',
  );
  return { ...Object.fromEntries(kept), INIT_CWD: cwd };
}
