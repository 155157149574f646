/** The result of a query as the gateway has sent it. */

export class IncompleteResult extends Error {}

/** @throws IncompleteResult when it is not of the gateway, or not all of it; what the fetch throws when it is aborted */
export async function wholeResult(response: Response): Promise<Blob> {
  const stated = response.headers.get('x-gateway-result-bytes');
  if (stated === null) {
    throw new IncompleteResult(
      'The answer is not of the gateway. A proxy between this browser and the gateway may have sent it.',
    );
  }
  const blob = await response.blob().catch((error: unknown) => {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new IncompleteResult('The connection ended before the whole result had arrived.');
  });
  if (blob.size === Number(stated)) return blob;
  throw new IncompleteResult(
    `The result is not the one that the gateway has sent: it has ${blob.size} bytes instead of ${stated}.`,
  );
}
