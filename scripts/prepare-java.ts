/** `npm run java`: fetches the Java drivers that tests run. */
import { prepareDrivers } from '../test/support/java.ts';

const prepared = prepareDrivers((line) => console.log(line));
if ('missing' in prepared) console.log(`tests of Java drivers are skipped: ${prepared.missing}`);
