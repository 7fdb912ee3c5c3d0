// OpenAI's own client for JavaScript: chat, its stream helper, responses, models.
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'

const client = new OpenAI({ baseURL: `${process.env.BASE_URL}/v1`, apiKey: 'any', maxRetries: 0 })
const asked = (content, model = 'demo') => ({ model, messages: [{ role: 'user', content }] })
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [{ type: 'function', function: { name: 'weather', description: 'Tell the weather.', parameters } }]

test('answer and usage', async () => {
  const answer = await client.chat.completions.create(asked('hi'))
  assert.equal(answer.choices[0].message.content, 'You said: hi')
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
})

test('stream and usage', async () => {
  const stream = client.chat.completions.stream({ ...asked('hi'), stream_options: { include_usage: true } })
  const answer = await stream.finalChatCompletion()
  assert.equal(answer.choices[0].message.content, 'You said: hi')
  assert.ok(answer.usage.completion_tokens > 0)
})

test('tool calls, streamed and not', async () => {
  const body = { ...asked('weather in two cities?'), tools }
  const streamed = await client.chat.completions.stream(body).finalChatCompletion()
  for (const { choices } of [streamed, await client.chat.completions.create(body)]) {
    assert.equal(choices[0].finish_reason, 'tool_calls')
    const cities = choices[0].message.tool_calls.map((call) => JSON.parse(call.function.arguments).city)
    assert.deepEqual(cities, ['Bern', 'Rom'])
  }
})

test('a tool is run', async () => {
  const run = (city) => `it is sunny in ${city}`
  const tool = { ...tools[0].function, parse: JSON.parse, function: ({ city }) => run(city) }
  const runner = client.chat.completions.runTools({ ...asked('weather in Zürich?'), tools: [{ type: 'function', function: tool }] })
  assert.equal(await runner.finalContent(), 'Take a hat.')
})

test('responses, streamed and not', async () => {
  const body = { model: 'demo', input: 'hi' }
  assert.equal((await client.responses.create(body)).output_text, 'You said: hi')
  const final = await client.responses.stream(body).finalResponse()
  assert.equal(final.output_text, 'You said: hi')
  assert.ok(final.usage.output_tokens > 0)
})

test('models and an unknown model', async () => {
  const names = []
  for await (const model of client.models.list()) names.push(model.id)
  assert.deepEqual(names.sort(), ['demo', 'thinker'])
  const wrong = (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found'
  await assert.rejects(client.chat.completions.create(asked('hi', 'nothing')), wrong)
  await assert.rejects(client.chat.completions.create({ ...asked('hi', 'nothing'), stream: true }), wrong)
})
