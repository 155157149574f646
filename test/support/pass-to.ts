/** Passes requests on to another HTTP server, as they are. */
import { type IncomingMessage, request, type ServerResponse } from 'node:http';

export const passTo = (url: () => string) => (incoming: IncomingMessage, response: ServerResponse) => {
  const { method, headers } = incoming;
  const outgoing = request(url(), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  incoming.pipe(outgoing);
};
