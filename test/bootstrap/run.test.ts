import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ended, Project, printed } from './project.ts';

let project: Project;
beforeEach(() => {
  project = new Project();
  project.installNode();
});
afterEach(() => project.remove());

describe('scripts/run.mjs runs a file with the project’s Node', () => {
  test('TypeScript runs without a build, with its arguments, in the folder it was started in', async () => {
    project.write(
      'a.ts',
      'const args: string[] = process.argv.slice(2); console.log(JSON.stringify([args, process.cwd()]));',
    );
    const { code, stdout, stderr } = await project.run(['a.ts', '--port', '9000', 'x y']);
    expect(JSON.parse(stdout)).toEqual([['--port', '9000', 'x y'], project.root]);
    expect([code, stderr]).toEqual([0, '']);
  });

  test('it ends with the exit code of the file', async () => {
    project.write('a.ts', 'process.exit(7);');
    expect(await project.run(['a.ts'])).toMatchObject({ code: 7, signal: null });
  });

  test('it ends with the signal that ended the file', async () => {
    project.write('a.ts', 'process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 1000);');
    expect(await project.run(['a.ts'])).toMatchObject({ code: null, signal: 'SIGKILL' });
  });

  test('SIGHUP reaches the file each time', async () => {
    project.write(
      'a.ts',
      `let times = 0;
       process.on('SIGHUP', () => { times += 1; console.log('time ' + times); if (times === 2) process.exit(5); });
       setInterval(() => {}, 1000);
       console.log('ready');`,
    );
    const child = project.start(['a.ts']);
    const end = ended(child);
    await printed(child, 'ready');
    child.kill('SIGHUP');
    await printed(child, 'time 1');
    child.kill('SIGHUP');
    expect(await end).toMatchObject({ code: 5 });
  });

  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s reaches the file once, however often it comes, and the wrapper waits for the file',
    async (signal) => {
      project.write(
        'a.ts',
        `let times = 0;
         process.on('${signal}', () => { times += 1; console.log('signalled'); });
         process.on('SIGUSR2', () => { console.log('times ' + times); process.exit(5); });
         setInterval(() => {}, 1000);
         console.log('pid ' + process.pid + ' ready');`,
      );
      const child = project.start(['a.ts']);
      const end = ended(child);
      let output = '';
      child.stdout?.on('data', (piece) => {
        output += piece;
      });
      await printed(child, 'ready');
      child.kill(signal);
      await until(() => output.includes('signalled'), child);
      child.kill(signal);
      child.kill(signal);
      process.kill(Number(/pid (\d+)/.exec(output)?.[1]), 'SIGUSR2');
      expect(await end).toMatchObject({ code: 5, stdout: expect.stringContaining('times 1') });
    },
  );

  test('a file that does not exist is Node’s own error', async () => {
    const { code, stderr } = await project.run(['nowhere.ts']);
    expect(code).toBe(1);
    expect(stderr).toContain('nowhere.ts');
  });

  test('without a file it prints its usage', async () => {
    expect(await project.run([])).toMatchObject({ code: 2, stderr: expect.stringContaining('usage') });
  });

  test('when it already runs on that Node it runs the file itself, and no wrapper is left', async () => {
    await useThisNode();
    project.write('a.ts', 'console.log(process.pid, process.ppid, process.argv[2]);');
    const child = project.start(['a.ts', 'x']);
    const { code, stdout } = await ended(child);
    expect([code, stdout.trim()]).toEqual([0, `${child.pid} ${process.pid} x`]);
  });
});

/** Makes the Node of this test run the project's own. */
async function useThisNode(): Promise<void> {
  project.write('a.ts', '');
  await project.run(['a.ts']);
  const marker = JSON.parse(project.read('node_modules/.chancery-installed'));
  project.write('node_modules/.chancery-installed', JSON.stringify({ ...marker, node: process.execPath }));
}

describe('under npm run', () => {
  /** As npm does it: in a shell that stays, and that passes no signal on when it is stopped. */
  async function stoppedShell(env: Record<string, string>): Promise<string> {
    project.write(
      'a.ts',
      `process.on('SIGTERM', () => { console.log('asked to stop'); process.exit(); });
       setTimeout(() => { console.log('left running'); process.exit(); }, 1000);
       console.log('ready');`,
    );
    const shell = spawn('sh', ['-c', `"${process.execPath}" scripts/run.mjs a.ts; exit 9`], { cwd: project.root, env });
    const end = ended(shell);
    await printed(shell, 'ready');
    shell.kill('SIGTERM');
    return (await end).stdout;
  }

  test('the file gets SIGTERM when the shell around it is gone', async () => {
    expect(await stoppedShell({ npm_lifecycle_event: 'start' })).toBe('ready\nasked to stop\n');
  });

  test('also when no wrapper is left', async () => {
    await useThisNode();
    expect(await stoppedShell({ npm_lifecycle_event: 'start' })).toBe('ready\nasked to stop\n');
  });

  test('elsewhere a file may outlive its shell', async () => {
    expect(await stoppedShell({})).toBe('ready\nleft running\n');
  });
});

describe('the gateway under the wrapper', () => {
  const main = `
    console.log(JSON.stringify([process.argv.slice(2), process.connected === true, process.env.CHANCERY_SUPERVISED ?? null]));
    process.on('disconnect', () => { console.log('left alone'); process.exit(0); });
    if (process.connected) console.log('ready');`;

  test('it notices that the wrapper was killed', async () => {
    project.write('src/main.ts', main);
    const child = project.start(['src/main.ts', 'serve', '--port', '1']);
    const output = ended(child);
    await printed(child, 'ready');
    child.kill('SIGKILL');
    const { stdout } = await output;
    expect(stdout.split('\n')).toEqual(['[["serve","--port","1"],true,"1"]', 'ready', 'left alone', '']);
  });

  test.each([[['src/main.ts', 'log', 'tail']], [['src/other.ts', 'serve']]])('%j is not supervised', async (args) => {
    project.write('src/main.ts', main);
    project.write('src/other.ts', main);
    const { stdout } = await project.run(args, { CHANCERY_SUPERVISED: '1' });
    expect(JSON.parse(stdout)).toEqual([args.slice(1), false, null]);
  });

  test('the chancery command runs src/main.ts wherever it is called', async () => {
    project.write('src/main.ts', 'console.log(process.argv.slice(2).join());');
    const child = spawn(process.execPath, [`${project.root}/scripts/chancery.mjs`, 'config', 'print'], { cwd: '/' });
    expect(await ended(child)).toMatchObject({ code: 0, stdout: 'config,print\n' });
  });
});

async function until(
  condition: () => boolean,
  child: { stdout: import('node:stream').Readable | null },
): Promise<void> {
  while (!condition()) await once(child.stdout ?? process, 'data');
}
