"""The support desk's agent: four tools, what may be done about each of them, and the policy beside this file.

SUPPORT_DESK_PAYMENTS_URL is the payments service; SUPPORT_DESK_SMTP_HOST and SUPPORT_DESK_SMTP_PORT the mail server.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path

import httpx
from langchain_core.tools import tool

from examples.support_desk.mail import post
from signoff.workers import Agent, NotApplied, Refused, current_effect, effect

HERE = Path(__file__).parent
SECONDS_TO_WAIT = 10.0


@effect("read")
@tool
def lookup_order(order_id: str) -> str:
    """Looks an order up: what it is, what it cost, where it is, and whose it is."""
    orders = json.loads((HERE / "orders.json").read_text(encoding="utf-8"))
    if order_id not in orders:
        return f"There is no order {order_id}."
    order = orders[order_id]
    return (
        f"Order {order_id}, {order['item']} for {order['total']:.2f}: {order['status']}. Customer: {order['customer']}"
    )


# The payments service remembers a key for a day: within it, sending again can't pay twice.
@effect("keyed", window=timedelta(hours=24))
@tool
async def refund(order_id: str, amount: float, reason: str) -> str:
    """Pays an amount of an order back to the customer."""
    payment = {"order_id": order_id, "amount": amount, "reason": reason}
    try:
        answer = await _pay(payment, current_effect().idempotency_key)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise NotApplied(f"the payments service can't be reached: {error}") from error
    if answer.status_code in (402, 422):
        raise Refused(answer.json()["error"])
    # All else, a timeout too, says nothing about the money: raised as it is, it counts as unknown.
    answer.raise_for_status()
    return f"Refunded {amount:.2f} on order {order_id} as {answer.json()['id']}."


async def _pay(payment: dict[str, object], key: str) -> httpx.Response:
    address = os.environ["SUPPORT_DESK_PAYMENTS_URL"]
    async with httpx.AsyncClient(base_url=address, timeout=SECONDS_TO_WAIT, trust_env=False) as client:
        return await client.post("/refunds", json=payment, headers={"Idempotency-Key": key})


# Nobody can ask a mail server what became of a mail: if that is ever unknown, a person has to look. So: opaque.
@effect("opaque")
@tool
async def send_email(to: str, subject: str, body: str) -> str:
    """Sends a mail in the shop's name."""
    host, port = os.environ["SUPPORT_DESK_SMTP_HOST"], int(os.environ["SUPPORT_DESK_SMTP_PORT"])
    message_id = f"<{current_effect().operation_id}@support-desk.example>"
    await asyncio.to_thread(post, host, port, message_id, to, subject, body)
    return f"Mailed {to}: {subject}."


@effect("opaque")
@tool
def ask_customer(question: str) -> str:
    """Asks the customer, and returns what they answered."""
    # The policy lets people respond or reject, never approve: their answer is the result, and this never runs.
    raise Refused("only a person can ask the customer")


agent = Agent(
    name="support-desk",
    tools=[lookup_order, refund, send_email, ask_customer],
    policy=HERE / "policy.toml",
    instructions="You work at the support desk of a coffee shop. Be brief. Ask the customer when something is missing.",
)
