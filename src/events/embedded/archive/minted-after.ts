import type { StreamName } from '../../event.ts';

/** A UUIDv7 at the end of a name, with or without its dashes. */
const mintedName =
  /[-_](?:([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})|([0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}))$/;

/**
 * Whether the stream is named after an id that `mintEventId` made in this process after it had made `id`. Such a name
 * is in no segment that was closed before that.
 */
export function mintedAfter(stream: StreamName, id: string): boolean {
  const [, dashed, plain] = mintedName.exec(stream) ?? [];
  if (dashed !== undefined) return dashed > id;
  return plain !== undefined && plain > id.replaceAll('-', '');
}
