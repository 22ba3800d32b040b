/** The API outputs of instalment plans and their products: camelCase, whole naira. */
import { Schema } from "effect"
import { INSTALMENT_PLAN_STATUSES } from "../../../machines/instalment.ts"
import { FREQUENCIES, INSTALMENT_MODES, INSTALMENT_STATUSES } from "../../../machines/instalment_schedule.ts"
import { CURRENCY } from "../../base/money.ts"
import { exampleId, instant } from "../../http/response.ts"

const { Array: List, Boolean: Bool, Int, Literals, NullOr, String: Text, Struct } = Schema

const naira = Int.annotate({ description: "An amount in whole naira" })

export const SavingsPlan = Struct({
  id: Text,
  object: Schema.Literal("savings_plan"),
  livemode: Bool,
  createdAt: instant,
  status: Literals(INSTALMENT_PLAN_STATUSES),
  productName: Text,
  productImage: NullOr(Text),
  mode: Literals(INSTALMENT_MODES),
  frequency: NullOr(Literals(FREQUENCIES)),
  currency: Schema.Literal(CURRENCY),
  targetAmount: naira,
  amountPaid: naira.annotate({ description: "The paid part of targetAmount, in whole naira" }),
  outstanding: naira.annotate({ description: "The unpaid part of targetAmount, in whole naira; fees come on top" }),
  instalmentAmount: NullOr(naira),
  instalmentCount: NullOr(Int),
  instalmentsPaid: Int.annotate({ description: "For a flexible plan: the number of payments" }),
  nextDue: NullOr(
    Struct({
      index: Int,
      dueAt: instant,
      amount: naira.annotate({ description: "The unpaid part of it, in whole naira" }),
    }),
  ),
  deadline: instant,
  instalments: List(
    Struct({
      index: Int,
      dueAt: instant,
      amount: naira,
      status: Literals(INSTALMENT_STATUSES),
      paidAt: NullOr(instant),
    }),
  ),
  pendingFee: naira.annotate({ description: "Late fees that are not paid, in whole naira" }),
  completedAt: NullOr(instant),
  shippedAt: NullOr(instant),
  deliveredAt: NullOr(instant),
  refundWindowEndsAt: NullOr(instant),
})

const EXAMPLE_PLAN = {
  id: "SB-01M7YYP0A6",
  object: "savings_plan",
  livemode: false,
  createdAt: "2026-11-01T09:00:00.000Z",
  status: "active",
  productName: "Inverter",
  productImage: null,
  mode: "fixed",
  frequency: "monthly",
  currency: "NGN",
  targetAmount: 300_000,
  amountPaid: 100_000,
  outstanding: 200_000,
  instalmentAmount: 100_000,
  instalmentCount: 3,
  instalmentsPaid: 1,
  nextDue: { index: 2, dueAt: "2026-12-01T09:00:00.000Z", amount: 100_000 },
  deadline: "2027-02-01T09:00:00.000Z",
  instalments: [
    {
      index: 1,
      dueAt: "2026-11-01T09:00:00.000Z",
      amount: 100_000,
      status: "paid",
      paidAt: "2026-11-01T09:00:00.000Z",
    },
    { index: 2, dueAt: "2026-12-01T09:00:00.000Z", amount: 100_000, status: "scheduled", paidAt: null },
    { index: 3, dueAt: "2027-01-01T09:00:00.000Z", amount: 100_000, status: "scheduled", paidAt: null },
  ],
  pendingFee: 0,
  completedAt: null,
  shippedAt: null,
  deliveredAt: null,
  refundWindowEndsAt: null,
} as const

export const Plan = SavingsPlan.annotate({ identifier: "savings_plan", examples: [EXAMPLE_PLAN] })

const slotCounts = { total: NullOr(Int), used: Int, remaining: NullOr(Int) }

const offerFields = {
  id: Text,
  object: Schema.Literal("savings_product"),
  livemode: Bool,
  name: Text,
  description: NullOr(Text),
  price: naira,
  isActive: Bool,
  image: NullOr(Text),
  cycleMonths: Int,
  mode: Literals(INSTALMENT_MODES),
  allowedFrequencies: List(Literals(FREQUENCIES)),
  slots: Struct(slotCounts),
  lateFee: naira,
  refundWindowDays: Int,
}

const EXAMPLE_OFFER = {
  id: exampleId("instalment_product"),
  object: "savings_product",
  livemode: false,
  name: "Inverter",
  description: null,
  price: 300_000,
  isActive: true,
  image: null,
  cycleMonths: 3,
  mode: "fixed",
  allowedFrequencies: ["weekly", "monthly"],
  slots: { total: 50, used: 1, remaining: 49 },
  lateFee: 500,
  refundWindowDays: 7,
} as const

/** A product as buyers see it. */
export const Offer = Struct(offerFields).annotate({ identifier: "savings_offer", examples: [EXAMPLE_OFFER] })

const productFields = {
  ...offerFields,
  createdAt: instant,
  familyId: NullOr(Text),
  views: Int.annotate({ description: "How many requests its public address has received" }),
  saving: Int.annotate({ description: "Plans that are active" }),
  overdue: Int,
  readyToDeliver: Int.annotate({ description: "Plans that are completed and not shipped" }),
  delivered: Int,
  collected: naira.annotate({
    description: "The sum paid on its plans, without cancelled plans, in whole naira",
  }),
}

const EXAMPLE_PRODUCT = {
  ...EXAMPLE_OFFER,
  createdAt: "2026-10-01T09:00:00.000Z",
  familyId: null,
  views: 12,
  saving: 1,
  overdue: 0,
  readyToDeliver: 0,
  delivered: 0,
  collected: 100_000,
} as const

export const Product = Struct(productFields).annotate({ identifier: "savings_product", examples: [EXAMPLE_PRODUCT] })

export const ProductList = List(Struct(productFields)).annotate({
  identifier: "savings_products",
  examples: [[EXAMPLE_PRODUCT]],
})

export const PlanList = Struct({ items: List(SavingsPlan), total: Int, page: Int, limit: Int }).annotate({
  identifier: "savings_plan_list",
  examples: [{ items: [EXAMPLE_PLAN], total: 1, page: 1, limit: 20 }],
})

export const Summary = Struct({
  series: List(Struct({ date: Text, collected: naira, newPlans: Int })).annotate({
    description: "By day, oldest first; for 12m by month, each by its first day",
  }),
  outstanding: Struct({ total: naira, overdue: naira }).annotate({
    description: "The sum left to pay on active and overdue plans, and the missed part of it; without fees",
  }),
  fulfilment: Struct({ readyToDeliver: Int, shipped: Int, delivered: Int }),
  completionRate: Schema.Finite.annotate({
    description: "The share of fully paid plans among all plans with a payment, from 0 to 1",
  }),
  products: List(Struct(productFields)),
}).annotate({
  identifier: "savings_summary",
  examples: [
    {
      series: [{ date: "2026-11-01", collected: 100_000, newPlans: 1 }],
      outstanding: { total: 200_000, overdue: 0 },
      fulfilment: { readyToDeliver: 0, shipped: 0, delivered: 0 },
      completionRate: 0,
      products: [EXAMPLE_PRODUCT],
    },
  ],
})

export const Created = Struct({
  publicId: Text,
  accessToken: Text.annotate({ description: "The buyer's secret: like a password, and shown once" }),
  pageUrl: Text,
  paymentUrl: Text,
  amountDue: naira.annotate({ description: "The smallest first payment, in whole naira" }),
}).annotate({
  identifier: "savings_plan_created",
  examples: [
    {
      publicId: EXAMPLE_PLAN.id,
      accessToken: "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
      pageUrl: "https://billing.example/save/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
      paymentUrl: "https://billing.example/save/zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz/pay",
      amountDue: 100_000,
    },
  ],
})

export const Cancelled = Struct({
  plan: SavingsPlan,
  slot: Struct({ productId: Text, ...slotCounts }),
}).annotate({
  identifier: "savings_plan_cancelled",
  examples: [
    {
      plan: { ...EXAMPLE_PLAN, status: "cancelled", nextDue: null },
      slot: { productId: exampleId("instalment_product"), total: 50, used: 0, remaining: 50 },
    },
  ],
})
