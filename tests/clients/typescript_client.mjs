// The client of the TypeScript SDK, told what to do: one JSON order a line on standard input, one answer a line on standard output.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// What tests drive is installed apart from what they are made of.
const require = createRequire(new URL("../../.servers/package.json", import.meta.url));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

let client;

const orders = {
  async connect({ mode, url, ...entry }) {
    client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(entry));
    await client.listTools(); // with the schemas at hand, it checks every answer against them
    return client.getNegotiatedProtocolVersion();
  },
  call: ({ name, arguments: given }) => client.callTool({ name, arguments: given }),
  read: ({ uri }) => client.readResource({ uri }),
  async close() {
    await client.close();
    return null;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const answer = await orders[order.do](order).then(
    (result) => ({ result }),
    (error) => ({ error: String(error) }),
  );
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
