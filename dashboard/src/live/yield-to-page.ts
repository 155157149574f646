/** Lets the page handle input and paint. Unlike a timer it is not slowed down in a hidden tab. */
export async function yieldToPage(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  await new Promise<void>((resolve) => {
    port1.onmessage = () => resolve();
    port2.postMessage(undefined);
  });
  port1.close();
}
