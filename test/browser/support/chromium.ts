/**
 * The Chromium of this machine: the variable `CHROMIUM`, or a program of the PATH. Nothing is downloaded. The headless
 * shell is the same engine without the browser around it: a page takes a third of the processor time.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const programs = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The path of the program, or undefined. */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string | undefined {
  if (env.CHROMIUM) return env.CHROMIUM;
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return programs.flatMap((program) => folders.map((folder) => join(folder, program))).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export const withoutChromium =
  'skipped: there is no Chromium. Install it (Debian: apt-get install chromium-headless-shell) or set CHROMIUM to its path.';

/**
 * @param args further arguments of the command line
 * @throws Error without a Chromium
 */
export async function launchChromium(args: readonly string[] = []): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error(withoutChromium);
  return chromium.launch({
    executablePath,
    // The profile is temporary, and every page comes from a gateway that the test started. Chromium's sandbox refuses
    // to run as root, as in containers.
    chromiumSandbox: false,
    args: ['--disable-background-networking', '--disable-component-update', '--no-default-browser-check', ...args],
  });
}
