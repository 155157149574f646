/** `npm run kafka:prepare`: fetches the jars of the broker that `npm run kafka` and tests start. */
import { prepareKafka } from './jars.ts';

const jars = await prepareKafka((line) => console.log(line));
console.log('classPath' in jars ? `Kafka: ${jars.classPath}` : `tests on Kafka are skipped: ${jars.missing}`);
