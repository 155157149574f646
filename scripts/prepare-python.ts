/**
 * `npm run python`: installs the packages of the Python clients, which tests in `test/clients/` run.
 * Without Python, or when they cannot be installed, it prints the reason and those tests are skipped.
 */
import { preparePython } from '../test/support/python.ts';

const python = await preparePython(console.log);
console.log(
  'interpreter' in python ? `Python clients: ${python.interpreter}` : `Python clients are skipped: ${python.missing}`,
);
