/** Which variant of a file a client receives (RFC 9110 §12.5.3). */

export const codings = ['br', 'gzip'] as const;
export type Coding = (typeof codings)[number];

/** A header with more members than this counts as absent. */
const MAX_MEMBERS = 32;

/**
 * The coding that the client prefers among those that are available; of equal weights, the first of `codings`.
 * @returns undefined for the file as it is, also when the client excludes that
 */
export function preferredCoding(
  accepted: string | undefined,
  available: (coding: Coding) => boolean,
): Coding | undefined {
  const members = accepted?.toLowerCase().split(',') ?? [];
  if (members.length > MAX_MEMBERS) return undefined;
  const weights = new Map(members.map(weightOf));
  const weight = (name: string) => weights.get(name) ?? weights.get('*') ?? 0;
  const best = codings
    .filter((coding) => available(coding) && weight(coding) > 0)
    .reduce<Coding | undefined>(
      (one, other) => (one !== undefined && weight(one) >= weight(other) ? one : other),
      undefined,
    );
  const plain = weights.get('identity') ?? 0;
  return best !== undefined && weight(best) >= plain ? best : undefined;
}

/** `gzip;q=0.5` */
function weightOf(member: string): [name: string, weight: number] {
  const [name = '', ...parameters] = member.split(';').map((part) => part.trim());
  const weight = parameters.find((one) => one.startsWith('q='))?.slice(2);
  return [name, weight === undefined ? 1 : Number(weight) || 0];
}
