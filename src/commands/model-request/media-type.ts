/** Media types are case-insensitive (RFC 9110 §8.3.1). */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  return headers['content-type']?.toLowerCase().startsWith('text/event-stream') === true;
}

export function isJson(headers: Readonly<Record<string, string>>): boolean {
  const [type = ''] = headers['content-type']?.toLowerCase().split(';', 1) ?? [];
  return /^application\/(?:[\w.-]+\+)?json$/.test(type.trim());
}
