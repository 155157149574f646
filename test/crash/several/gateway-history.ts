/** The gateways of a log and whose exchanges are whose, as the log has it, over all rounds. */
import { leaseEnded, leaseGranted } from '../../../src/events/catalogue/gateway.ts';
import { idOf, parsePosition, type RecordedEvent } from '../../../src/events/event.ts';

export interface EndedLease {
  readonly gateway: string;
  readonly position: number;
  readonly reason: 'stopped' | 'replaced' | 'expired' | 'exited';
  /** The gateway that has its exchanges from then on; undefined while there was none. */
  heir: string | undefined;
}

export interface Owner {
  readonly gateway: string;
  /** Position of the event from which on it has the exchange no more. */
  readonly until: number;
}

export class GatewayHistory {
  /** Process ids by gateway. */
  readonly pids = new Map<string, number>();
  readonly #ended = new Map<string, EndedLease>();
  #withoutHeir: EndedLease[] = [];

  add(event: RecordedEvent): void {
    const { type, stream, position } = event;
    if (type === leaseGranted.type) {
      for (const one of this.#withoutHeir.splice(0)) one.heir = idOf(stream);
    }
    if (type === 'gateway.started') {
      const pid: unknown = Reflect.get(Object(event.data), 'pid');
      if (typeof pid === 'number') this.pids.set(idOf(stream), pid);
    }
    if (type !== leaseEnded.type) return;
    const { reason, heir } = leaseEnded.data.parse(event.data);
    const ended = { gateway: idOf(stream), position: parsePosition(position), reason, heir };
    this.#ended.set(ended.gateway, ended);
    if (heir === undefined) this.#withoutHeir.push(ended);
  }

  endOf(gateway: string): EndedLease | undefined {
    return this.#ended.get(gateway);
  }

  /** One after another, beginning with the gateway that received the request. */
  ownersOf(gateway: string): Owner[] {
    const owners: Owner[] = [];
    for (let one: string | undefined = gateway; one !== undefined; ) {
      const ended: EndedLease | undefined = this.#ended.get(one);
      owners.push({ gateway: one, until: ended?.position ?? Number.POSITIVE_INFINITY });
      one = ended?.heir;
    }
    return owners;
  }
}
