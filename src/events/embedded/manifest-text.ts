/** The file of a manifest: JSON whose last member is the CRC-32 of the text without that member. Loads no zod. */
import { crc32 } from 'node:zlib';
import { LogCorrupted } from './log-errors.ts';

/** An earlier version wrote none. */
const checksum = /,"crc32":(\d+)\}\s*$/;

export function manifestText(manifest: object): string {
  const text = JSON.stringify(manifest);
  return `${text.slice(0, -1)},"crc32":${crc32(text)}}\n`;
}

/** @throws LogCorrupted */
export function parseManifestText(text: string, name: string): unknown {
  const said = checksum.exec(text);
  if (said !== null && crc32(`${text.slice(0, said.index)}}`) !== Number(said[1])) {
    throw new LogCorrupted(name, 0, 'its manifest does not have the hash that it says');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new LogCorrupted(name, 0, 'its manifest cannot be read', error);
  }
}
