/** The version of this gateway, from its package.json. */
import { readFileSync } from 'node:fs';

const read = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };

export const gatewayVersion = read.version;
